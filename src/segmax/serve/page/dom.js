// Building elements. Whatever comes from the service becomes a text node: there is no innerHTML in this page.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Build an element: h("a", {href: "#", onclick: f}, "text", child). */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Build an element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

/** Set properties of an element's style. The service's policy forbids style attributes, but not this. */
export function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

/** A bar whose length is a share, from 0 to 1, of the space that it has. */
export function bar(share, kind = "") {
  const length = `${100 * Math.min(1, Math.max(0, share || 0))}%`;
  return h("span", {class: `bar ${kind}`, "aria-hidden": "true"}, styled(h("i"), {width: length}));
}
