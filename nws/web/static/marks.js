/* Events as marks on plots and as a list: which events belong to a place, their glyphs, their words. Each kind has a
   glyph of its own, so that colour is never all there is. */

import { linkTo } from "./address.js";
import { el } from "./dom.js";
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

/** Events of the whole grid and of the given hosts: those that mark a plot about these hosts. */
export function about(events, hosts) {
  return events.filter((event) => !event.host || hosts.includes(event.host));
}

/** One event in words: `plan made: 64 rows on alpha, beta`. */
export const words = (event) => [event.kind, event.host ? ` ${event.host}` : "", event.text ? `: ${event.text}` : ""].join("");

/** Events as a list, newest first; `most` of them. */
export function eventList(events, most = 100) {
  if (!events.length) return el("p", { class: "note" }, "No events in this time.");
  const newest = [...events].sort((a, b) => b.t - a.t);
  return [
    el("ol", { class: "events" }, newest.slice(0, most).map((event) =>
      el(
        "li", null,
        el("span", { class: "glyph", "aria-hidden": "true", data: { kind: event.kind } }, glyphOf(event.kind)),
        el("time", { datetime: new Date(1000 * event.t).toISOString() }, moment(event.t)),
        el("span", { class: "kind" }, event.kind),
        event.host ? el("a", { href: linkTo({ host: event.host }) }, event.host) : null,
        el("span", { class: "text" }, event.text ?? ""),
      ))),
    newest.length > most ? el("p", { class: "note" }, `${newest.length - most} older ones are not listed; choose a shorter time.`) : null,
  ];
}
