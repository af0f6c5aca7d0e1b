/* Elements from data. Text becomes text nodes only: nothing from the server is parsed as markup, and no function
   here could do so. */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set([
  "value",
  "checked",
  "disabled",
  "hidden",
  "open",
  "htmlFor",
  "selected",
  "indeterminate",
]);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(node.dataset, value);
    } else if (PROPERTIES.has(name)) {
      node[name] = value;
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** Return an HTML element: `el("a", {href, class, on: {click}}, "text", child)`. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element, with the same arguments. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Set the text of a node if it differs, so that selections and screen readers are not disturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute if it differs; null removes it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/**
 * Make the children of `parent` those of `items`, in this order, keeping nodes whose key is known: focus, open
 * details and plots survive a refresh. `make(item)` gives a new node, `update(node, item)` brings it up to date.
 */
export function reconcile(parent, items, { key, make, update }) {
  const known = (parent.nwsNodes ??= new Map());
  const wanted = new Map();
  let before = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    const node = known.get(name) ?? make(item);
    wanted.set(name, node);
    if (node === before) before = before.nextSibling;
    else parent.insertBefore(node, before);
    update(node, item);
  }
  for (const [name, node] of known) {
    if (!wanted.has(name)) {
      node.nwsClose?.();
      node.remove();
    }
  }
  parent.nwsNodes = wanted;
}
