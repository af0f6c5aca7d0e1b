/* Marks values as stale between responses: every second each node with a measuring time (`data-at`) gets its age,
   and `data-stale` selects the style of old values. */

import { address } from "./address.js";
import { now } from "./clock.js";
import { el, setAttribute, setText } from "./dom.js";
import { duration, moment } from "./units.js";

/** Return whether a value measured at `t` is too old to be reliable. Values of a lost host always are. */
export function isStale(t, lost = false) {
  return lost || !(now() - t <= address().stale_s);
}

/** Return a node with the age of the measurement at its `data-at`. */
export const ageNode = () => el("time", { class: "age" });

/** Set the time of the value that `node` shows; null for never. */
export function setMeasuredAt(node, t, lost = false) {
  setAttribute(node, "data-at", typeof t === "number" ? t : "");
  setAttribute(node, "data-lost", lost ? "yes" : null);
  look(node, now(), address().stale_s);
}

function look(node, at, stale_s) {
  const measured = node.dataset.at === "" ? NaN : Number(node.dataset.at);
  const age_s = Math.max(at - measured, 0);
  const stale = node.dataset.lost === "yes" || !(age_s <= stale_s);
  setAttribute(node, "data-stale", stale ? "yes" : null);
  if (node.classList.contains("age")) {
    const never = Number.isNaN(measured);
    setText(node, never ? "never" : `${duration(age_s)}${stale ? ", stale" : ""}`);
    setAttribute(node, "title", never ? null : `measured ${moment(measured)}`);
    setAttribute(node, "datetime", never ? null : new Date(1000 * measured).toISOString());
  }
}

/** Update all nodes; called every second and after every change. */
export function tick() {
  const at = now();
  const { stale_s } = address();
  for (const node of document.querySelectorAll("[data-at]")) look(node, at, stale_s);
}
