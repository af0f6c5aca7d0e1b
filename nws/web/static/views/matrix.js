/* Source × destination: latency, bandwidth, age or asymmetry of every link, coloured against thresholds. Up to 64
   hosts host by host; more by site or clique first, then the hosts of one group against those of another. */

import * as api from "../api.js";
import { address, go, linkTo, linkWith } from "../address.js";
import { isStale } from "../ages.js";
import { el, setAttribute, setText } from "../dom.js";
import { byName } from "../names.js";
import { describe, detail } from "../matrix/detail.js";
import { MOST_GROUPS, axisOf, groupsOf, summarise } from "../matrix/groups.js";
import { keyOf, linksOf } from "../matrix/links.js";
import { MEASURES, STEPS, cellFormat, formatLimits, parseLimit, parseLimits, steps, verdict } from "../matrix/measures.js";
import { matrixTable } from "../matrix/table.js";

const NUMBERS_UP_TO = 40;

function controls(onLimit) {
  const tabs = Object.entries(MEASURES).map(([name, m]) => el("a", { data: { measure: name } }, m.name));
  const by = ["site", "clique"].map((name) => el("a", { data: { by: name } }, `by ${name}`));
  const rows = el("select", { id: "rows" });
  const cols = el("select", { id: "cols" });
  const limit = el("input", { id: "limit", type: "text", autocomplete: "off", size: "12" });
  const problem = el("span", { class: "problem", role: "alert" });
  const form = el("form", { class: "limit" }, el("label", { for: "limit" }, "Threshold"), limit, el("button", { type: "submit" }, "Colour"), problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onLimit(limit.value.trim());
  });
  for (const select of [rows, cols]) {
    select.addEventListener("change", () => go(linkWith({ [select.id]: select.value, pair: null })));
  }
  const node = el(
    "div", { class: "controls" },
    el("div", { class: "ranges measures", role: "group", "aria-label": "What the cells show" }, tabs),
    form,
    el("div", { class: "ranges", role: "group", "aria-label": "Groups" }, by),
    el("span", { class: "pick" }, el("label", { for: "rows" }, "From"), rows),
    el("span", { class: "pick" }, el("label", { for: "cols" }, "To"), cols),
  );
  return { node, tabs, by, rows, cols, limit, problem };
}

function options(select, groups, chosen, mayAll) {
  const names = ["", ...groups.map((group) => group.name)];
  const first = mayAll ? "all hosts" : "all groups";
  if (select.nwsNames !== names.join("\n") + first) {
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name || first)));
    select.nwsNames = names.join("\n") + first;
  }
  select.value = names.includes(chosen) ? chosen : "";
}

function legend(measure, limit, limits, scale, format) {
  const key = (attributes, text) => el("li", null, el("span", { class: "swatch", data: attributes, "aria-hidden": "true" }), text);
  const marks = [key({ composed: "yes" }, "composed"), key({ stale: "yes" }, "stale"), key({ none: "yes" }, "no data")];
  const unit = format.unit ? el("li", null, `cells in ${format.unit}`) : null;
  if (limit !== null || limits.size) {
    const than = limit === null ? "its threshold" : measure.text(limit);
    const side = measure.higherIsWorse ? "above" : "below";
    return [
      key({ verdict: "well" }, "well within"), key({ verdict: "within" }, `within ${than}`),
      key({ verdict: "beyond" }, `${side} ${than} ▲`), key({ verdict: "far" }, "by more than twice ▲▲"), ...marks, unit,
    ].filter(Boolean);
  }
  if (!scale.wide) return [...marks, unit].filter(Boolean);
  const [best, worst] = measure.higherIsWorse ? [scale.low, scale.high] : [scale.high, scale.low];
  return [
    el("li", null, `${measure.text(best)} `, Array.from({ length: STEPS }, (_, i) => el("span", { class: "swatch", data: { step: i }, "aria-hidden": "true" })), ` ${measure.text(worst)}`),
    ...marks, unit,
  ].filter(Boolean);
}

/** The view. */
export function matrixView() {
  const shown = { hosts: [], lost: new Set(), links: new Map(), groups: [] };
  const parts = controls((text) => setLimit(text));
  const line = el("p", { class: "look", role: "status" }, "Point at a cell, or move through the cells with the arrow keys.");
  const box = el("div", { class: "matrixbox" });
  const keys = el("ul", { class: "keys" });
  const about = el("section", { class: "detail", "aria-label": "The chosen link" });
  const note = el("p", { class: "note" });
  const element = el("div", null, el("h1", { tabindex: "-1" }, "Links"), parts.node, note, keys, line, box, about);
  const table = matrixTable(box, { onLook: (a, b) => setText(line, model.cellOf(a, b).name), onChoose: choose });
  let model = null;

  const measure = () => MEASURES[address().measure];
  const lost = (link) => shown.lost.has(link.from) || shown.lost.has(link.to);

  function setLimit(text) {
    if (text && parseLimit(measure(), text) === null) {
      setText(parts.problem, `“${text}” is no threshold; write for example ${measure().example}`);
      return;
    }
    setText(parts.problem, "");
    go(linkWith({ limit: text }), { replace: true });
  }

  function choose(a, b) {
    if (model.grouped) go(linkWith({ rows: a, cols: b }));
    else go(linkWith({ pair: keyOf(a, b) }), { replace: true });
  }

  function hostModel({ row, column }) {
    const [rowHosts, columnHosts] = [row.hosts, column.hosts];
    const m = measure();
    const state = address();
    const limit = parseLimit(m, state.limit);
    const limits = parseLimits(m, state.limits);
    const wanted = new Set([...rowHosts, ...columnHosts]);
    const value = new Map();
    for (const link of shown.links.values()) {
      if (wanted.has(link.from) && wanted.has(link.to)) value.set(link.key, m.of(link, shown.links));
    }
    const cross = [...value].filter(([key, v]) => v !== null && shown.links.get(key).from !== shown.links.get(key).to).map(([, v]) => v);
    const scale = steps(m, cross);
    const format = cellFormat(state.measure, cross);
    const cellOf = (a, b) => {
      const key = keyOf(a, b);
      const link = shown.links.get(key);
      const v = value.get(key) ?? null;
      const own = limits.has(key) ? parseLimit(m, limits.get(key)) : limit;
      const name = describe(link, a, b, m, v);
      if (!link || v === null) return { text: "", name, none: true, self: a === b };
      const judged = own === null ? null : verdict(m, v, own);
      const stale = isStale(link.measured_at, lost(link));
      return {
        text: format.text(v), self: a === b, at: link.measured_at, lost: lost(link), stale, composed: link.through !== null,
        step: judged === null && a !== b ? scale.place(v) : null, verdict: judged,
        name: name + (judged === "beyond" || judged === "far" ? ", beyond its threshold" : "") + (stale ? ", stale" : ""),
      };
    };
    return { rows: rowHosts, columns: columnHosts, edges: new Set([...row.edges, ...column.edges]), cellOf, keys: legend(m, limit, limits, scale, format), grouped: false };
  }

  function groupModel(groups) {
    const m = measure();
    const limit = parseLimit(m, address().limit);
    const cells = summarise(groups, shown.links, m);
    const values = [...cells.values()].map((cell) => cell.worst);
    const scale = steps(m, values);
    const format = cellFormat(address().measure, values);
    const names = groups.slice(0, MOST_GROUPS).map((group) => group.name);
    const cellOf = (a, b) => {
      const cell = cells.get(`${a}>${b}`);
      if (!cell) return { text: "", name: `${a} to ${b}: no measured link`, none: true };
      const judged = limit === null ? null : verdict(m, cell.worst, limit);
      const stale = isStale(cell.newest);
      return {
        text: format.text(cell.worst), at: cell.newest, stale, step: judged === null ? scale.place(cell.worst) : null, verdict: judged,
        name: `${a} to ${b}: ${m.name.toLowerCase()} at worst ${m.text(cell.worst)}, median ${m.text(cell.median)}, ${cell.values.length} measured links${stale ? ", stale" : ""}`,
      };
    };
    return { rows: names, columns: names, edges: new Set(), cellOf, keys: legend(m, limit, new Map(), scale, format), grouped: true };
  }

  function pick() {
    const { rows, cols } = address();
    const row = axisOf(shown.groups, rows, shown.hosts);
    const column = axisOf(shown.groups, cols ?? (row?.name ? rows : undefined), shown.hosts);
    return row && column ? { row, column } : null;
  }

  function draw() {
    const state = address();
    for (const tab of parts.tabs) {
      const mine = tab.dataset.measure === state.measure;
      setAttribute(tab, "href", linkWith({ measure: tab.dataset.measure, limit: null, limits: null }));
      setAttribute(tab, "aria-current", mine ? "true" : null);
    }
    for (const link of parts.by) {
      setAttribute(link, "href", linkWith({ by: link.dataset.by === "site" ? null : link.dataset.by, rows: null, cols: null, pair: null }));
      setAttribute(link, "aria-current", link.dataset.by === state.by ? "true" : null);
    }
    shown.groups = groupsOf(shown.hosts, state.by);
    const small = axisOf(shown.groups, undefined, shown.hosts) !== null;
    const picked = pick();
    options(parts.rows, shown.groups, picked?.row.name ?? "", small);
    options(parts.cols, shown.groups, picked?.column.name ?? "", small);
    if (document.activeElement !== parts.limit) parts.limit.value = state.limit;
    parts.limit.placeholder = measure().example;
    model = picked ? hostModel(picked) : groupModel(shown.groups);
    keys.replaceChildren(...model.keys);
    table.show(model, { chosen: state.pair, numbers: model.columns.length <= NUMBERS_UP_TO });
    const more = shown.groups.length > MOST_GROUPS ? ` The first ${MOST_GROUPS} of ${shown.groups.length} groups are shown.` : "";
    setText(note, model.grouped ? `Worst measured link from each group to each other; choose a cell for its hosts.${more}` : "Values are what the service expects next; ages are those of the last measurement.");
    drawDetail(state);
  }

  function drawDetail(state) {
    const cut = state.pair?.indexOf(">") ?? -1;
    if (model.grouped || cut < 0) return about.replaceChildren();
    if (about.contains(document.activeElement)) return undefined;
    const [from, to] = [state.pair.slice(0, cut), state.pair.slice(cut + 1)];
    const m = measure();
    const link = shown.links.get(state.pair);
    const limits = parseLimits(m, state.limits);
    const onLimit = (text, input) => {
      if (text && parseLimit(m, text) === null) {
        input.setCustomValidity(`Write for example ${m.example}`);
        input.reportValidity();
        input.addEventListener("input", () => input.setCustomValidity(""), { once: true });
        return;
      }
      if (text) limits.set(state.pair, text.replaceAll(/\s+/g, ""));
      else limits.delete(state.pair);
      go(linkWith({ limits: formatLimits(limits) }), { replace: true });
    };
    return about.replaceChildren(...detail(link, shown.links, { from, to, lost: link ? lost(link) : false, measure: m, ownLimit: limits.get(state.pair) ?? "", onLimit }));
  }

  return {
    element,
    title: "Links",
    crumbs: () => [{ text: "Links", href: linkTo({ view: "matrix" }) }],
    async load(signal) {
      const { hosts } = await api.hosts(signal);
      shown.hosts = hosts.sort((a, b) => byName(a.name, b.name));
      shown.lost = new Set(hosts.filter((h) => h.lost).map((h) => h.name));
      shown.groups = groupsOf(hosts, address().by);
      const picked = pick();
      const names = picked ? [...new Set([...picked.row.hosts, ...picked.column.hosts])] : null;
      const whole = !names || names.length === hosts.length;
      const snapshot = await api.snapshot({ composed: picked ? "true" : undefined, hosts: whole ? undefined : names.join(",") }, signal);
      shown.links = linksOf(snapshot);
      draw();
    },
    every_s: () => (shown.hosts.length > 100 ? 30 : 10),
    changed: draw,
  };
}
