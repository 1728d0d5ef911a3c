// Makes elements. Text goes in as text: nothing here, nor anywhere else in the dashboard, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

// An HTML element. `on` holds listeners; what is null, undefined or false is left out.
export function h(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

// An SVG element.
export function s(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), attributes, children);
}

// Put other children into an element.
export function put(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

let numbered = 0;

// An id for a pair of elements that refer to each other.
export function freshId(word) {
  numbered += 1;
  return `${word}-${numbered}`;
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

function furnish(element, attributes, children) {
  element.append(...present(children));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (name === "value") {
      element.value = value;
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  return element;
}
