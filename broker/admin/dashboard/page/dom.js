// Elements are made here only, and all text in them is text: client ids and topics are whatever clients send.

const SVG = "http://www.w3.org/2000/svg";

export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function show(place, ...children) {
  place.replaceChildren(...children.flat().filter((child) => child));
}

// Sets a text only if it differs, so that a selection survives and screen readers are not told again.
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}
