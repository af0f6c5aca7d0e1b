/* Events as marks on plots and as a list: selection by view, glyphs, texts. Each kind has its own glyph, so that
   colour is never the only sign. */

import { linkTo } from "./address.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";
import { moment } from "./units.js";

const KINDS = {
  "host registered": { glyph: "◆", colour: "--event-good" },
  "host lost": { glyph: "✕", colour: "--event-bad" },
  "host returned": { glyph: "●", colour: "--event-good" },
  "plan made": { glyph: "▼", colour: "--event-plan" },
  "run ended": { glyph: "■", colour: "--event-plan" },
  note: { glyph: "✎", colour: "--event-other" },
};
const OTHER = { glyph: "○", colour: "--event-other" };

export const MOST_EVENTS = 500;
export const kinds = Object.keys(KINDS);
export const glyphOf = (kind) => (KINDS[kind] ?? OTHER).glyph;
export const colourOf = (kind) => (KINDS[kind] ?? OTHER).colour;

/** Return the events of the whole grid and of the given hosts, for a plot of these hosts. */
export function about(events, hosts) {
  return events.filter((event) => !event.host || hosts.includes(event.host));
}

/** Return an event as text: `plan made: 64 rows on alpha, beta`. */
export const words = (event) =>
  [event.kind, event.host ? ` ${event.host}` : "", event.text ? `: ${event.text}` : ""].join("");

function makeItem(event) {
  return el(
    "li",
    null,
    el("span", { class: "glyph", "aria-hidden": "true", data: { kind: event.kind } }, glyphOf(event.kind)),
    el("time", { datetime: new Date(1000 * event.t).toISOString() }, moment(event.t)),
    el("span", { class: "kind" }, event.kind),
    event.host ? el("a", { href: "" }, event.host) : null,
    el("span", { class: "text" }, event.text ?? ""),
  );
}

function updateItem(item, event) {
  if (event.host) setAttribute(item.querySelector("a"), "href", linkTo({ host: event.host }));
}

/** Return a list of events, newest first, at most `most` of them; `nwsShow(events)` updates it. */
export function eventList(most) {
  const list = el("ol", { class: "events" });
  const note = el("p", { class: "note" });
  const node = el("div", null, list, note);
  node.nwsShow = (events) => {
    const newest = [...events].sort((a, b) => b.t - a.t);
    const key = (event) => JSON.stringify([event.t, event.kind, event.host, event.text]);
    const single = [...new Map(newest.slice(0, most).map((event) => [key(event), event])).values()];
    reconcile(list, single, { key, make: makeItem, update: updateItem });
    list.hidden = !events.length;
    const older = newest.length - most;
    setText(
      note,
      !events.length
        ? "No events in this time."
        : older > 0
          ? `${older} older ones are not listed here.`
          : "",
    );
  };
  return node;
}
