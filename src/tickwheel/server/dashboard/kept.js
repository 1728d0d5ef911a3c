// What the browser keeps for this reader: the theme and the language. A browser that keeps nothing is no error.

export function recall(name) {
  try {
    return localStorage.getItem(`tickwheel.${name}`);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(`tickwheel.${name}`);
    else localStorage.setItem(`tickwheel.${name}`, value);
  } catch {
    // It holds until the page is left.
  }
}
