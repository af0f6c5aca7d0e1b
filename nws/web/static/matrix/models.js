/* Models of the matrix by cell: host against host, or group against group for too many hosts. Each defines its
   rows, columns, cells, and the key of its colours. Only the key is drawn here. */

import { isStale } from "../ages.js";
import { el } from "../dom.js";
import { describe } from "./detail.js";
import { MOST_GROUPS, summarise } from "./groups.js";
import { keyOf } from "./links.js";
import { MEASURES, STEPS, cellFormat, parseLimit, parseLimits, steps, verdict } from "./measures.js";

function legend(measure, limit, limits, scale, format) {
  const key = (attributes, text) =>
    el("li", null, el("span", { class: "swatch", data: attributes, "aria-hidden": "true" }), text);
  const marks = [
    key({ composed: "yes" }, "composed"),
    key({ stale: "yes" }, "stale"),
    key({ none: "yes" }, "no data"),
  ];
  const unit = format.unit ? el("li", null, `cells in ${format.unit}`) : null;
  if (limit !== null || limits.size) {
    const than = limit === null ? "its threshold" : measure.text(limit);
    const side = measure.higherIsWorse ? "above" : "below";
    return [
      key({ verdict: "well" }, "well within"),
      key({ verdict: "within" }, `within ${than}`),
      key({ verdict: "beyond" }, `${side} ${than} ▲`),
      key({ verdict: "far" }, "by more than twice ▲▲"),
      ...marks,
      unit,
    ].filter(Boolean);
  }
  if (!scale.wide) return [...marks, unit].filter(Boolean);
  const [best, worst] = measure.higherIsWorse ? [scale.low, scale.high] : [scale.high, scale.low];
  return [
    el(
      "li",
      null,
      `${measure.text(best)} `,
      Array.from({ length: STEPS }, (_, i) =>
        el("span", { class: "swatch", data: { step: i }, "aria-hidden": "true" }),
      ),
      ` ${measure.text(worst)}`,
    ),
    ...marks,
    unit,
  ].filter(Boolean);
}

/* Values of the links among some hosts; `across`: those between different hosts, which define the colours. */
function valuesAmong(hosts, links, measure) {
  const wanted = new Set(hosts);
  const values = new Map();
  const across = [];
  for (const link of links.values()) {
    if (!wanted.has(link.from) || !wanted.has(link.to)) continue;
    const value = measure.of(link, links);
    values.set(link.key, value);
    if (value !== null && link.from !== link.to) across.push(value);
  }
  return { values, across };
}

/** Return the model of hosts of `row` against hosts of `column`. `lost`: names of lost hosts. */
export function hostModel({ row, column }, { state, links, lost }) {
  const measure = MEASURES[state.measure];
  const limit = parseLimit(measure, state.limit);
  const limits = parseLimits(measure, state.limits);
  const { values, across } = valuesAmong([...row.hosts, ...column.hosts], links, measure);
  const scale = steps(measure, across);
  const format = cellFormat(state.measure, across);
  const cellOf = (from, to) => {
    const key = keyOf(from, to);
    const link = links.get(key);
    const value = values.get(key) ?? null;
    const self = from === to;
    const name = describe(link, from, to, measure, value);
    if (!link || value === null) return { text: "", name, none: true, self };
    const own = limits.has(key) ? parseLimit(measure, limits.get(key)) : limit;
    const judged = own === null ? null : verdict(measure, value, own);
    const gone = lost.has(from) || lost.has(to);
    const stale = isStale(link.measured_at, gone);
    const bad = judged === "beyond" || judged === "far";
    return {
      text: format.text(value),
      name: `${name}${bad ? ", beyond its threshold" : ""}${stale ? ", stale" : ""}`,
      step: judged === null && !self ? scale.place(value) : null,
      verdict: judged,
      at: link.measured_at,
      lost: gone,
      composed: link.through !== null,
      stale,
      self,
    };
  };
  return {
    rows: row.hosts,
    columns: column.hosts,
    edges: new Set([...row.edges, ...column.edges]),
    cellOf,
    keys: legend(measure, limit, limits, scale, format),
    grouped: false,
  };
}

/** Return the model of groups: the worst measured link from each to each. */
export function groupModel(groups, { state, links }) {
  const measure = MEASURES[state.measure];
  const limit = parseLimit(measure, state.limit);
  const cells = summarise(groups, links, measure);
  const values = [...cells.values()].map((cell) => cell.worst);
  const scale = steps(measure, values);
  const format = cellFormat(state.measure, values);
  const cellOf = (from, to) => {
    const cell = cells.get(keyOf(from, to));
    if (!cell) return { text: "", name: `${from} to ${to}: no measured link`, none: true };
    const judged = limit === null ? null : verdict(measure, cell.worst, limit);
    const stale = isStale(cell.newest);
    const [worst, median] = [measure.text(cell.worst), measure.text(cell.median)];
    const told = `${from} to ${to}: ${measure.name.toLowerCase()} at worst ${worst}, median ${median}`;
    return {
      text: format.text(cell.worst),
      name: `${told}, ${cell.values.length} measured links${stale ? ", stale" : ""}`,
      step: judged === null ? scale.place(cell.worst) : null,
      verdict: judged,
      at: cell.newest,
      stale,
    };
  };
  const names = groups.slice(0, MOST_GROUPS).map((group) => group.name);
  return {
    rows: names,
    columns: names,
    edges: new Set(),
    cellOf,
    keys: legend(measure, limit, new Map(), scale, format),
    grouped: true,
  };
}
