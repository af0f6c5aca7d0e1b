/* Source × destination: latency, bandwidth, age or asymmetry of every link, coloured against thresholds. Up to 64
   hosts individually; more first by site or clique, then the hosts of one group against those of another. */

import * as api from "../api.js";
import { address, go, linkTo, linkWith } from "../address.js";
import { el, setText } from "../dom.js";
import { controls, showControls } from "../matrix/controls.js";
import { detail } from "../matrix/detail.js";
import { MOST_GROUPS, axisOf, groupsOf } from "../matrix/groups.js";
import { keyOf, linksOf } from "../matrix/links.js";
import { MEASURES, formatLimits, parseLimit, parseLimits } from "../matrix/measures.js";
import { groupModel, hostModel } from "../matrix/models.js";
import { matrixTable } from "../matrix/table.js";

/* With more columns there is no space for numbers in the cells. */
const NUMBERS_UP_TO = 40;
/* A larger grid has a snapshot of megabytes: update less often. */
const LARGE = 100;

const INVITATION = "Point at a cell, or move through the cells with the arrow keys.";
const OF_HOSTS = "Values are what the service expects next; ages are those of the last measurement.";
const OF_GROUPS =
  "Worst measured link from each group to each; a cell leads to its hosts, and to the pairs composed there.";

class MatrixView {
  constructor() {
    this.hosts = [];
    this.groups = [];
    this.lost = new Set();
    this.links = new Map();
    this.model = null;
    this.parts = controls((text) => this.setLimit(text));
    this.line = el("p", { class: "look", role: "status" }, INVITATION);
    this.box = el("div", { class: "matrixbox" });
    this.keys = el("ul", { class: "keys" });
    this.about = el("section", { class: "detail", "aria-label": "The chosen link" });
    this.note = el("p", { class: "note" });
    const heading = el("h1", { tabindex: "-1" }, "Links");
    const { parts, note, keys, line, box, about } = this;
    this.element = el("div", null, heading, parts.node, note, keys, line, box, about);
    this.title = "Links";
    this.table = matrixTable(box, {
      onLook: (from, to) => setText(line, this.model.cellOf(from, to).name),
      onChoose: (from, to) => this.choose(from, to),
    });
  }

  crumbs() {
    return [{ text: "Links", href: linkTo({ view: "matrix" }) }];
  }

  every_s() {
    return this.hosts.length > LARGE ? 30 : 10;
  }

  async load(signal) {
    const { hosts } = await api.hosts(signal);
    this.hosts = hosts;
    this.lost = new Set(hosts.filter((host) => host.lost).map((host) => host.name));
    this.groups = groupsOf(hosts, address().by);
    const picked = this.picked();
    const names = picked ? [...new Set([...picked.row.hosts, ...picked.column.hosts])] : null;
    const some = names && names.length < hosts.length ? names.join(",") : undefined;
    const snapshot = await api.snapshot({ composed: picked ? "true" : undefined, hosts: some }, signal);
    this.links = linksOf(snapshot);
    this.changed();
  }

  /* The rows and columns for single hosts; null for groups. */
  picked() {
    const { rows, cols } = address();
    const row = axisOf(this.groups, rows, this.hosts);
    const column = axisOf(this.groups, cols ?? (row?.name ? rows : undefined), this.hosts);
    return row && column ? { row, column } : null;
  }

  /** Redraw the known data for the present address. */
  changed() {
    const state = address();
    this.groups = groupsOf(this.hosts, state.by);
    const picked = this.picked();
    showControls(this.parts, state, {
      groups: this.groups,
      row: picked?.row.name ?? "",
      column: picked?.column.name ?? "",
      mayAll: axisOf(this.groups, undefined, this.hosts) !== null,
    });
    const known = { state, links: this.links, lost: this.lost };
    this.model = picked ? hostModel(picked, known) : groupModel(this.groups, known);
    this.keys.replaceChildren(...this.model.keys);
    const numbers = this.model.columns.length <= NUMBERS_UP_TO;
    this.table.show(this.model, { chosen: state.pair, numbers });
    const n = this.groups.length;
    const more = n > MOST_GROUPS ? ` The first ${MOST_GROUPS} of ${n} groups are shown.` : "";
    setText(this.note, this.model.grouped ? OF_GROUPS + more : OF_HOSTS);
    this.showDetail(state);
  }

  showDetail(state) {
    const cut = state.pair?.indexOf(">") ?? -1;
    if (this.model.grouped || cut < 0) {
      this.about.replaceChildren();
      return;
    }
    // the user is typing a threshold
    if (this.about.contains(document.activeElement)) return;
    const [from, to] = [state.pair.slice(0, cut), state.pair.slice(cut + 1)];
    const measure = MEASURES[state.measure];
    const nodes = detail(this.links.get(state.pair), this.links, {
      from,
      to,
      lost: this.lost.has(from) || this.lost.has(to),
      measure,
      ownLimit: parseLimits(measure, state.limits).get(state.pair) ?? "",
      onLimit: (text, input) => setOwnLimit(state.pair, text, input),
    });
    this.about.replaceChildren(...nodes);
  }

  choose(from, to) {
    if (this.model.grouped) go(linkWith({ rows: from, cols: to }));
    else go(linkWith({ pair: keyOf(from, to) }), { replace: true });
  }

  setLimit(text) {
    const measure = MEASURES[address().measure];
    if (text && parseLimit(measure, text) === null) {
      setText(this.parts.problem, `“${text}” is no threshold; write for example ${measure.example}`);
      return;
    }
    setText(this.parts.problem, "");
    go(linkWith({ limit: text }), { replace: true });
  }
}

function setOwnLimit(pair, text, input) {
  const { measure: name, limits: kept } = address();
  const measure = MEASURES[name];
  if (text && parseLimit(measure, text) === null) {
    input.setCustomValidity(`Write for example ${measure.example}`);
    input.reportValidity();
    input.addEventListener("input", () => input.setCustomValidity(""), { once: true });
    return;
  }
  const limits = parseLimits(measure, kept);
  if (text) limits.set(pair, text.replaceAll(/\s+/g, ""));
  else limits.delete(pair);
  go(linkWith({ limits: formatLimits(limits) }), { replace: true });
}

/** Return the view. */
export const matrixView = () => new MatrixView();
