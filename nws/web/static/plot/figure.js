/* One plot as part of a page: heading, drawing, what the cursor points at, the sentence that says the same, and the
   table of the values. Loads itself when it comes into sight, and again when it is told to. */

import * as api from "../api.js";
import { address, linkTo, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el, setAttribute, setText } from "../dom.js";
import { about, words } from "../marks.js";
import { parseSeries } from "../names.js";
import { showSpan } from "../timebar.js";
import { clockTime, duration, moment, quantity, withError } from "../units.js";
import { chart } from "./chart.js";
import { columns, csv, gaps, isRolledUp, rows, sentence } from "./data.js";

const sights = new IntersectionObserver(
  (entries) => entries.forEach((entry) => entry.target.nwsSight(entry.isIntersecting)),
  { rootMargin: "150px" },
);
const sizes = new ResizeObserver((entries) => entries.forEach((entry) => entry.target.nwsResize()));

function legend() {
  return el(
    "p", { class: "legend", "aria-hidden": "true" },
    el("span", { class: "k-measured" }, "measured"), el("span", { class: "k-forecast" }, "forecast one step ahead"),
    el("span", { class: "k-band" }, "± expected error"), el("span", { class: "k-extent" }, "least … greatest"),
    el("span", { class: "k-gap" }, "no data"),
  );
}

function table(document, c) {
  const { picked, every } = rows(document, c);
  return [
    every > 1 ? el("p", { class: "note" }, `Every ${every}th of ${c.t.length} points.`) : null,
    el(
      "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of the plot" },
      el(
        "table", null,
        el("thead", null, el("tr", null, ["Time", "Measured", "Forecast", "Expected error", "Least … greatest"].map((h) => el("th", { scope: "col" }, h)))),
        el("tbody", null, picked.map((row) => el("tr", null, row.map((text, i) => el(i ? "td" : "th", i ? null : { scope: "row" }, text))))),
      ),
    ),
  ];
}

function save(document, c) {
  const url = URL.createObjectURL(new Blob([csv(document, c)], { type: "text/csv" }));
  el("a", { href: url, download: `${document.series.replaceAll(/[^\w.@-]+/g, "_")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/**
 * A figure of one series. `large`: the series' own page. Its `nwsRefresh(events)` notes that data may be newer; it
 * loads only while in sight. `onPlot(error | null)` hears how that went.
 */
export function figure({ series, unit, heading, large = false, onPlot }) {
  const { host, peer } = parseSeries(series);
  const label = heading ?? series;
  const age = ageNode();
  const canvas = el("div", { class: "canvas", tabindex: "0", role: "group", "aria-label": `Plot of ${label}. Left and right arrow keys read its points.` });
  const readout = el("p", { class: "readout", role: "status" }, "Loading …");
  const told = el("p", { class: "sentence" });
  const holder = el("div", { class: "table" });
  const details = el("details", { class: "values" }, el("summary", null, "Values as a table"), holder);
  const title = el(large ? "h2" : "h4", null, large ? label : el("a", { href: linkTo({ series }) }, label), age);
  const node = el("figure", { class: large ? "plot large" : "plot", data: { series } }, el("figcaption", null, title), canvas, large ? legend() : null, readout, told, details);
  const state = { document: null, c: null, events: [], index: null, wanted: true, loading: null, seen: false };

  const height = () => (large ? (window.innerWidth < 640 ? 230 : 340) : 170);
  let drawing = null; // made when first in sight: a host of a full mesh has hundreds of series

  function read(index) {
    if (!state.c) return;
    const { c, document: d } = state;
    state.index = index;
    const i = index ?? c.value.findLastIndex((v) => v !== null);
    if (i < 0 || c.t[i] === undefined) return setText(readout, "No values in this time.");
    const t = c.t[i];
    const parts = [d.t.at(-1) - d.t[0] > 86400 ? moment(t) : clockTime(t)];
    parts.push(c.value[i] === null ? "no measurement" : `measured ${quantity(c.value[i], unit)}`);
    if (c.forecast[i] !== null) parts.push(`forecast ${withError(c.forecast[i], c.error[i], unit)}`);
    if (isRolledUp(c) && c.low[i] !== null) parts.push(`${quantity(c.low[i], unit)} … ${quantity(c.high[i], unit)}`);
    const { since, until } = span(address(), now());
    const near = index === null ? [] : state.events.filter((e) => Math.abs(e.t - t) <= (until - since) / 100);
    near.forEach((event) => parts.push(words(event)));
    setText(readout, parts.join(" · "));
  }

  function fillTable() {
    if (!details.open || !state.c) return;
    const button = el("button", { type: "button", on: { click: () => save(state.document, state.c) } }, "Save as CSV");
    const keepsFocus = holder.contains(document.activeElement) ? document.activeElement.tagName : null;
    holder.replaceChildren(...[table(state.document, state.c), button].flat(2).filter(Boolean));
    if (keepsFocus) holder.querySelector(keepsFocus)?.focus();
  }

  async function load() {
    if (state.loading) return;
    state.wanted = false;
    state.loading = new AbortController();
    const over = span(address(), now());
    const points = Math.round(Math.min(Math.max(canvas.clientWidth, 400), 1200));
    try {
      const d = await api.plot(series, { since: over.since.toFixed(3), until: over.until.toFixed(3), points }, state.loading.signal);
      show(d, over);
      setAttribute(node, "data-loaded", "yes");
      onPlot(null);
    } catch (error) {
      if (!state.loading.signal.aborted) {
        if (!state.c) setText(readout, `Not loaded: ${error.message}`);
        onPlot(error);
      }
    } finally {
      state.loading = null;
      if (state.wanted && state.seen) load();
    }
  }

  function show(d, over) {
    const c = columns(d);
    const step = d.t.length > 1 ? (d.t.at(-1) - d.t[0]) / d.t.length : 0;
    const quiet_s = Math.max(address().stale_s, 3 * step);
    const holes = gaps(c, { since: over.since, until: Math.min(over.until, now()) }, quiet_s);
    Object.assign(state, { document: d, c, over, holes });
    drawing ??= chart(canvas, { unit, height, onCursor: read, onSelect: showSpan });
    drawing.show({ columns: c, span: over, holes, events: state.events });
    setText(told, sentence(d, c, holes));
    setAttribute(canvas, "data-resolution", d.resolution_s ? duration(d.resolution_s) : "raw");
    read(state.index);
    fillTable();
  }

  details.addEventListener("toggle", fillTable);
  canvas.addEventListener("keydown", (event) => {
    const n = state.c?.t.length ?? 0;
    const at = state.index ?? n - 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: n - 1, Escape: -1 }[event.key];
    if (to === undefined || !n) return;
    event.preventDefault();
    drawing.point(event.key === "Escape" ? -1 : Math.min(Math.max(to, 0), n - 1));
  });
  node.nwsSight = (seen) => {
    state.seen = seen;
    if (seen && state.wanted) load();
  };
  canvas.nwsResize = () => drawing?.resize();
  node.nwsRefresh = (events) => {
    state.events = about(events, [host, peer]);
    if (state.c) drawing.show({ columns: state.c, span: state.over, holes: state.holes, events: state.events });
    state.wanted = true;
    if (state.seen) load();
  };
  node.nwsMeasuredAt = (t, lost) => setMeasuredAt(age, t, lost);
  node.nwsRedraw = () => drawing?.redraw();
  node.nwsClose = () => {
    state.loading?.abort();
    sights.unobserve(node);
    sizes.unobserve(canvas);
    drawing?.close();
  };
  sights.observe(node);
  sizes.observe(canvas);
  return node;
}

/** Draw all plots anew, in the colours of the theme as it is now. */
export function redrawAll() {
  for (const node of document.querySelectorAll("figure.plot")) node.nwsRedraw();
}

/** Let go of all plots within a node that is about to go away. */
export function closeAll(root) {
  for (const node of root.querySelectorAll("figure.plot")) node.nwsClose();
}
