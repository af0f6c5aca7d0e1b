/* All events in the selected time as a list, or those of one kind. */

import * as api from "../api.js";
import { address, go, linkTo, linkWith, span } from "../address.js";
import { now } from "../clock.js";
import { el, reconcile, setText } from "../dom.js";
import { MOST_EVENTS, eventList, kinds } from "../marks.js";

/** Return the view. */
export function eventsView() {
  const pick = el("select", { id: "kind" });
  const list = eventList(MOST_EVENTS);
  const note = el("p", { class: "note" });
  const element = el(
    "div",
    null,
    el("h1", { tabindex: "-1" }, "Events"),
    el(
      "div",
      { class: "controls" },
      el("span", { class: "pick" }, el("label", { for: "kind" }, "Kind"), pick),
    ),
    note,
    list,
  );
  pick.addEventListener("change", () => go(linkWith({ kind: pick.value })));
  let events = [];

  function draw() {
    const { kind } = address();
    const known = [...new Set([...kinds, ...events.map((e) => e.kind), ...(kind ? [kind] : [])])];
    reconcile(pick, ["", ...known], {
      key: (name) => name,
      make: (name) => el("option", { value: name }, name || "all kinds"),
      update() {},
    });
    pick.value = kind;
    setText(
      note,
      events.length >= MOST_EVENTS
        ? `Only the last ${MOST_EVENTS} events were read; choose a shorter time for older ones.`
        : "",
    );
    list.nwsShow(events.filter((e) => !kind || e.kind === kind));
  }

  return {
    element,
    title: "Events",
    crumbs: () => [{ text: "Events", href: linkTo({ view: "events" }) }],
    async load(signal) {
      const { since, until } = span(address(), now());
      events = (
        await api.events({ since: since.toFixed(3), until: until.toFixed(3), most: MOST_EVENTS }, signal)
      ).events;
      draw();
    },
    every_s: () => 10,
    changed: draw,
  };
}
