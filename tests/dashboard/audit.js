// Looks for what shuts people out: things without a name, headings and landmarks that are missing, text too faint to read.
// Returns what is wrong, in words; nothing if all is well.

() => {
  const CONTRAST_MIN = 4.5;
  const wrong = [];
  const seen = (element) => {
    const style = getComputedStyle(element);
    return element.getClientRects().length > 0 && style.visibility === "visible" && !element.closest(".unseen");
  };
  const about = (element) => `<${element.localName} class="${element.getAttribute("class") ?? ""}"> ${element.textContent.trim().slice(0, 40)}`;

  const referred = (element, attribute) =>
    (element.getAttribute(attribute) ?? "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
  const nameOf = (element) =>
    element.getAttribute("aria-label") ||
    referred(element, "aria-labelledby").map((other) => other?.textContent).join(" ").trim() ||
    [...(element.labels ?? [])].map((label) => label.textContent).join(" ").trim() ||
    element.textContent.trim();

  for (const element of document.querySelectorAll("a, button, summary, canvas, [role=img], [role=group], dialog, nav, section[aria-label]")) {
    if (seen(element) && !nameOf(element)) wrong.push(`no name: ${about(element)}`);
  }
  for (const element of document.querySelectorAll("input, select, textarea")) {
    const named = element.labels?.length > 0 || element.getAttribute("aria-label");
    if (seen(element) && !named) wrong.push(`no label: ${about(element)} ${element.id}`);
  }
  for (const attribute of ["aria-describedby", "aria-labelledby"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      if (referred(element, attribute).includes(null)) wrong.push(`${attribute} leads nowhere: ${about(element)}`);
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) wrong.push(`two elements have the id ${id}`);
  for (const landmark of ["header", "nav", "main", "h1"]) {
    if (!document.querySelector(landmark)) wrong.push(`no ${landmark}`);
  }
  if (document.querySelectorAll("h1").length > 1) wrong.push("more than one h1");
  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.querySelector("[aria-live]")) wrong.push("nothing is read aloud");
  for (const cell of document.querySelectorAll("th")) if (!cell.scope) wrong.push(`a heading of nothing: ${about(cell)}`);
  for (const table of document.querySelectorAll("main table")) {
    if (!table.caption) wrong.push(`a table without a caption: ${about(table)}`);
  }
  for (const element of document.querySelectorAll("[tabindex]")) if (element.tabIndex > 0) wrong.push(`out of order: ${about(element)}`);

  const parts = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return [red, green, blue, alpha];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, place) => part * a + below[place] * (1 - a));
  const ground = (element) => {
    if (element === null) return parts(getComputedStyle(document.documentElement).backgroundColor).slice(0, 3);
    const colour = parts(getComputedStyle(element).backgroundColor);
    return colour[3] === 1 ? colour.slice(0, 3) : over(colour, ground(element.parentElement));
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let measured = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !seen(element) || element.closest("noscript, option, datalist")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const ink = over(parts(element instanceof SVGElement ? style.fill : style.color), below);
    const [dark, bright] = [light(ink), light(below)].sort((one, other) => one - other);
    const contrast = (bright + 0.05) / (dark + 0.05);
    measured += 1;
    if (contrast < CONTRAST_MIN) wrong.push(`contrast ${contrast.toFixed(2)}: ${about(element)}`);
  }
  if (measured < 10) wrong.push(`only ${measured} texts on the page`);
  return wrong;
}
