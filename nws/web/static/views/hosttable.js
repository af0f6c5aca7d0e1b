/* Hosts as rows: availability, free memory, age; lost and stale ones marked; sorted and filtered by the address.
   */

import { address, linkTo, linkWith } from "../address.js";
import { ageNode, isStale, setMeasuredAt } from "../ages.js";
import { el, reconcile, setAttribute, setText } from "../dom.js";
import { byName } from "../names.js";
import { digits, quantity } from "../units.js";
import { spark } from "./spark.js";

/** Return a record per host: `HostState`s joined with the last values of their own series. */
export function recordsOf(hosts, cpu, memory) {
  const index = (list) => new Map(list.map((s) => [s.series.slice(s.series.indexOf("@") + 1), s]));
  const cpus = index(cpu);
  const memories = index(memory);
  return hosts.map((host) => {
    const c = cpus.get(host.name) ?? null;
    const m = memories.get(host.name) ?? null;
    const times = [c?.measured_at, m?.measured_at].filter((t) => typeof t === "number");
    return {
      name: host.name,
      site: host.site ?? "",
      lost: host.lost,
      cpu: c?.last ?? null,
      memory: m?.last ?? null,
      total: host.memory_bytes ?? null,
      cpus: host.cpus ?? null,
      cpu_at: c?.measured_at ?? null,
      memory_at: m?.measured_at ?? null,
      measured_at: times.length ? Math.min(...times) : null,
      last_seen: host.last_seen,
      fault: host.fault ?? null,
    };
  });
}

export const stateOf = (record) => (record.lost ? "lost" : isStale(record.measured_at) ? "stale" : "ok");

const SORTS = {
  name: (a, b) => byName(a.name, b.name),
  cpu: (a, b) => (a.cpu ?? -1) - (b.cpu ?? -1),
  memory: (a, b) => (a.memory ?? -1) - (b.memory ?? -1),
  age: (a, b) => (a.measured_at ?? 0) - (b.measured_at ?? 0),
};

/**
 * Return the records that match the search, in the order of the address. All words must match; `is:lost`,
 * `is:stale`.
 */
export function select(records, { q, sort }) {
  const wanted = q.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (record, word) => {
    if (word.startsWith("is:")) return stateOf(record) === word.slice(3);
    return record.name.toLowerCase().includes(word) || record.site.toLowerCase().includes(word);
  };
  return records.filter((record) => wanted.every((word) => fits(record, word))).sort(SORTS[sort]);
}

function bar(kind) {
  const fillNode = el("span", { class: "fill" });
  const text = el("span", { class: "number" });
  return Object.assign(
    el(
      "span",
      { class: `bar ${kind}` },
      el("span", { class: "track", "aria-hidden": "true" }, fillNode),
      text,
    ),
    {
      nwsShow(share, told) {
        fillNode.style.setProperty("inline-size", `${100 * Math.min(Math.max(share ?? 0, 0), 1)}%`);
        setText(text, told);
      },
    },
  );
}

function makeRow(record) {
  const age = ageNode();
  const cpu = bar("cpu");
  const memory = bar("memory");
  const state = el("span", { class: "state" });
  const line = spark({
    series: `cpu.new@${record.name}`,
    unit: "CPU",
    top: 1,
    name: `CPU of ${record.name} over the time shown`,
  });
  const row = el(
    "tr",
    { data: { host: record.name } },
    el("th", { scope: "row" }, el("a", { href: "" }, record.name), " ", state),
    el("td", { class: "c-cpu" }, cpu),
    el("td", { class: "c-spark" }, line),
    el("td", { class: "c-memory" }, memory),
    el("td", { class: "c-cpus" }),
    el("td", { class: "c-age" }, age),
  );
  row.nwsParts = { age, cpu, memory, state, line, link: row.querySelector("a") };
  return row;
}

function updateRow(row, record) {
  const { age, cpu, memory, state, line, link } = row.nwsParts;
  const is = stateOf(record);
  setAttribute(link, "href", linkTo({ host: record.name }));
  setAttribute(row, "data-state", is);
  setText(state, record.fault ? `✕ ${record.fault}` : { lost: "✕ lost", stale: "◷ stale", ok: "" }[is]);
  cpu.nwsShow(record.cpu, record.cpu === null ? "–" : digits(record.cpu));
  memory.nwsShow(record.total ? record.memory / record.total : 0, quantity(record.memory, "B"));
  setMeasuredAt(cpu, record.cpu_at, record.lost);
  setMeasuredAt(memory, record.memory_at, record.lost);
  setText(row.querySelector(".c-cpus"), record.cpus ?? "–");
  setMeasuredAt(age, record.measured_at, record.lost);
  line.nwsRefresh();
}

const COLUMNS = [
  ["name", "Host", ""],
  ["cpu", "CPU for a new process", "c-cpu"],
  [null, "CPU over the time shown", "c-spark"],
  ["memory", "Free memory", "c-memory"],
  [null, "CPUs", "c-cpus"],
  ["age", "Age", "c-age"],
];

/** Return a table of hosts; `nwsShow(records)` updates it. `caption` names it. */
export function hostTable(caption) {
  const heads = COLUMNS.map(([sort, name, kind]) =>
    el("th", { scope: "col", class: kind, data: sort ? { sort } : {} }, sort ? el("a", null, name) : name),
  );
  const body = el("tbody");
  const node = el(
    "table",
    { class: "hosts" },
    el("caption", { class: "unseen" }, caption),
    el("thead", null, el("tr", null, heads)),
    body,
  );
  node.nwsShow = (records) => {
    for (const head of heads) {
      const { sort } = head.dataset;
      if (!sort) continue;
      setAttribute(head, "aria-sort", address().sort === sort ? "ascending" : null);
      setAttribute(head.firstChild, "href", linkWith({ sort: sort === "name" ? null : sort }));
    }
    reconcile(body, records, { key: (r) => r.name, make: makeRow, update: updateRow });
  };
  return node;
}
