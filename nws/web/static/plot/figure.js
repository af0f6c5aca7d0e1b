/* One plot as part of a page: heading, drawing, values under the cursor, the same as a sentence, and the table. It
   loads when it becomes visible, and on request. */

import * as api from "../api.js";
import { address, linkTo, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el, setAttribute, setText } from "../dom.js";
import { about, words } from "../marks.js";
import { parseSeries } from "../names.js";
import { showSpan } from "../timebar.js";
import { clockTime, moment, quantity, withError } from "../units.js";
import { chart } from "./chart.js";
import { columns, csv, gaps, isRolledUp, rows, sentence } from "./data.js";

/* Requested points: one per pixel, but always enough for an hour of 10-second samples. */
const FEWEST_POINTS = 400;
const MOST_POINTS = 1200;
const PHONE_PX = 640;

const sights = new IntersectionObserver(
  (entries) => entries.forEach((entry) => entry.target.nwsSight(entry.isIntersecting)),
  { rootMargin: "150px" },
);
const sizes = new ResizeObserver((entries) => entries.forEach((entry) => entry.target.nwsResize()));

function legend() {
  return el(
    "p",
    { class: "legend", "aria-hidden": "true" },
    el("span", { class: "k-measured" }, "measured"),
    el("span", { class: "k-forecast" }, "forecast one step ahead"),
    el("span", { class: "k-band" }, "± expected error; after now: mean until then, 80 % interval"),
    el("span", { class: "k-extent" }, "least … greatest"),
    el("span", { class: "k-gap" }, "no data"),
  );
}

function table(document, c) {
  const { picked, every } = rows(document, c);
  return [
    every > 1 ? el("p", { class: "note" }, `Every ${every}th of ${c.t.length} points.`) : null,
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of the plot" },
      el(
        "table",
        null,
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            ["Time", "Measured", "Forecast", "Expected error", "Least … greatest"].map((h) =>
              el("th", { scope: "col" }, h),
            ),
          ),
        ),
        el(
          "tbody",
          null,
          picked.map((row) =>
            el(
              "tr",
              null,
              row.map((text, i) => el(i ? "td" : "th", i ? null : { scope: "row" }, text)),
            ),
          ),
        ),
      ),
    ),
  ];
}

function save(document, c) {
  const url = URL.createObjectURL(new Blob([csv(document, c)], { type: "text/csv" }));
  el("a", { href: url, download: `${document.series.replaceAll(/[^\w.@-]+/g, "_")}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** The state of one figure: nodes, last document, and events. */
class Figure {
  constructor({ series, unit, heading, large = false, onPlot }) {
    Object.assign(this, { series, unit, large, onPlot });
    const { host, peer } = parseSeries(series);
    this.hosts = [host, peer];
    this.document = null;
    this.columns = null;
    this.events = [];
    this.fan = []; // of means up to times after now
    this.index = null; // point that the cursor reads, null for the last
    this.wanted = true; // newer data may be there
    this.loading = null;
    this.seen = false;
    this.drawing = null; // made when first in sight: a host of a full mesh has hundreds of series
    this.makeNodes(heading ?? series);
    this.listen();
  }

  makeNodes(label) {
    const { series, large } = this;
    this.age = ageNode();
    this.canvas = el("div", {
      class: "canvas",
      tabindex: "0",
      role: "group",
      "aria-label": `Plot of ${label}. Left and right arrow keys read its points.`,
    });
    this.readout = el("p", { class: "readout", role: "status" }, "Loading …");
    this.told = el("p", { class: "sentence" });
    this.holder = el("div", { class: "table" });
    this.details = el("details", { class: "values" }, el("summary", null, "Values as a table"), this.holder);
    const name = large ? label : el("a", { href: linkTo({ series }) }, label);
    this.node = el(
      "figure",
      { class: large ? "plot large" : "plot", data: { series } },
      el("figcaption", null, el(large ? "h2" : "h4", null, name, this.age)),
      this.canvas,
      large ? legend() : null,
      this.readout,
      this.told,
      this.details,
    );
  }

  listen() {
    const { node, canvas } = this;
    this.details.addEventListener("toggle", () => this.fillTable());
    canvas.addEventListener("keydown", (event) => this.key(event));
    node.nwsSight = (seen) => {
      this.seen = seen;
      if (seen && this.wanted) this.load();
    };
    canvas.nwsResize = () => this.drawing?.resize();
    node.nwsRefresh = (events, fan = []) => this.refresh(events, fan);
    node.nwsMeasuredAt = (t, lost) => setMeasuredAt(this.age, t, lost);
    node.nwsRedraw = () => this.drawing?.redraw();
    node.nwsClose = () => this.close();
    sights.observe(node);
    sizes.observe(canvas);
  }

  close() {
    this.loading?.abort();
    sights.unobserve(this.node);
    sizes.unobserve(this.canvas);
    this.drawing?.close();
  }

  refresh(events, fan) {
    this.fan = fan;
    this.events = about(events, this.hosts);
    if (this.columns) this.draw();
    this.wanted = true;
    if (this.seen) this.load();
  }

  async load() {
    if (this.loading) return;
    this.wanted = false;
    const controller = new AbortController();
    this.loading = controller;
    const over = span(address(), now());
    const points = Math.round(Math.min(Math.max(this.canvas.clientWidth, FEWEST_POINTS), MOST_POINTS));
    const asked = { since: over.since.toFixed(3), until: over.until.toFixed(3), points };
    try {
      this.show(await api.plot(this.series, asked, controller.signal), over);
      setAttribute(this.node, "data-loaded", "yes");
      this.onPlot(null);
    } catch (error) {
      if (!controller.signal.aborted) {
        if (!this.columns) setText(this.readout, `Not loaded: ${error.message}`);
        this.onPlot(error);
      }
    } finally {
      this.loading = null;
      if (this.wanted && this.seen) this.load();
    }
  }

  show(document, over) {
    const c = columns(document);
    const step = document.t.length > 1 ? (document.t.at(-1) - document.t[0]) / document.t.length : 0;
    const quiet_s = Math.max(address().stale_s, 3 * step);
    const holes = gaps(c, { since: over.since, until: Math.min(over.until, now()) }, quiet_s);
    Object.assign(this, { document, columns: c, over, holes });
    this.draw();
    setText(this.told, sentence(document, c, holes));
    this.read(this.index);
    this.fillTable();
  }

  draw() {
    this.drawing ??= chart(this.canvas, {
      unit: this.unit,
      height: () => (this.large ? (window.innerWidth < PHONE_PX ? 230 : 340) : 170),
      onCursor: (index) => this.read(index),
      onSelect: showSpan,
    });
    const { columns: c, over, holes, events, fan } = this;
    this.drawing.show({ columns: c, span: over, holes, events, fan });
  }

  /* Show the point under the cursor, or the last one. */
  read(index) {
    if (!this.columns) return;
    const { columns: c, document: d, unit } = this;
    this.index = index;
    const i = index ?? c.value.findLastIndex((v) => v !== null);
    const t = c.t[i];
    if (t === undefined) {
      setText(this.readout, "No values in this time.");
      return;
    }
    const parts = [d.t.at(-1) - d.t[0] > 86400 ? moment(t) : clockTime(t)];
    parts.push(c.value[i] === null ? "no measurement" : `measured ${quantity(c.value[i], unit)}`);
    if (c.forecast[i] !== null) parts.push(`forecast ${withError(c.forecast[i], c.error[i], unit)}`);
    if (isRolledUp(c) && c.low[i] !== null) {
      parts.push(`${quantity(c.low[i], unit)} … ${quantity(c.high[i], unit)}`);
    }
    if (index !== null) parts.push(...this.eventsNear(t).map(words));
    setText(this.readout, parts.join(" · "));
  }

  eventsNear(t) {
    const reach_s = (this.over.until - this.over.since) / 100;
    return this.events.filter((event) => Math.abs(event.t - t) <= reach_s);
  }

  key(event) {
    const n = this.columns?.t.length ?? 0;
    const at = this.index ?? n - 1;
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      PageUp: at - 10,
      PageDown: at + 10,
      Home: 0,
      End: n - 1,
      Escape: -1,
    }[event.key];
    if (to === undefined || !n) return;
    event.preventDefault();
    this.drawing.point(event.key === "Escape" ? -1 : Math.min(Math.max(to, 0), n - 1));
  }

  fillTable() {
    if (!this.details.open || !this.columns) return;
    const button = el(
      "button",
      { type: "button", on: { click: () => save(this.document, this.columns) } },
      "Save as CSV",
    );
    const { holder } = this;
    const focused = holder.contains(document.activeElement) ? document.activeElement.tagName : null;
    holder.replaceChildren(...[...table(this.document, this.columns), button].filter(Boolean));
    if (focused) holder.querySelector(focused)?.focus();
  }
}

/**
 * Return a figure of one series. `large`: on the series' own page. `nwsRefresh(events, fan)` marks the data as
 * outdated; it loads only while visible. `onPlot(error | null)` receives the outcome.
 */
export const figure = (options) => new Figure(options).node;

/** Redraw all plots in the theme's present colours. */
export function redrawAll() {
  for (const node of document.querySelectorAll("figure.plot")) node.nwsRedraw();
}

/** Release all plots within a node that is about to be removed. */
export function closeAll(root) {
  for (const node of root.querySelectorAll("figure.plot")) node.nwsClose();
}
