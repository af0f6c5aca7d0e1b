/* The grid as an overview: totals, sites with their hosts, search. The same view shows a single site. Large grids
   are listed by site. */

import * as api from "../api.js";
import { address, go, linkTo, linkWith, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el, reconcile, setAttribute, setText } from "../dom.js";
import { MOST_EVENTS, eventList } from "../marks.js";
import { byName } from "../names.js";
import { count, digits, quantity } from "../units.js";
import { hostTable, recordsOf, select, stateOf } from "./hosttable.js";

const MOST_LISTED = 120;
const siteName = (site) => site || "no site";

function median(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : null;
}

function figuresOf(records) {
  const with_ = (state) => records.filter((r) => stateOf(r) === state).length;
  const there = records.filter((r) => !r.lost);
  const cpu = median(there.map((r) => r.cpu));
  const memory = there.reduce((sum, r) => sum + (r.memory ?? 0), 0);
  return { hosts: records.length, lost: with_("lost"), stale: with_("stale"), cpu, memory };
}

function tiles() {
  const names = { hosts: "Hosts", lost: "Lost", stale: "Stale", cpu: "Median CPU", memory: "Free memory" };
  const values = Object.fromEntries(
    Object.keys(names).map((name) => [name, el("dd", { data: { tile: name } })]),
  );
  const node = el(
    "dl",
    { class: "tiles" },
    Object.entries(names).map(([name, text]) =>
      el("div", { data: { tile: name } }, el("dt", null, text), values[name]),
    ),
  );
  const links = { lost: el("a"), stale: el("a") };
  const link = (name, n, q) => {
    if (!links[name].isConnected) values[name].replaceChildren(links[name]);
    setText(links[name], count(n));
    setAttribute(links[name], "href", linkWith({ q }));
    setAttribute(links[name], "title", `Show only these: ${q}`);
    setAttribute(values[name].parentNode, "data-some", n ? "yes" : null);
  };
  node.nwsShow = (f) => {
    setText(values.hosts, count(f.hosts));
    link("lost", f.lost, "is:lost");
    link("stale", f.stale, "is:stale");
    setText(values.cpu, f.cpu === null ? "–" : digits(f.cpu));
    setText(values.memory, quantity(f.memory, "B"));
  };
  return node;
}

function searchForm() {
  const input = el("input", {
    type: "search",
    id: "q",
    autocomplete: "off",
    placeholder: "name, site, is:lost, is:stale",
  });
  let timer = 0;
  const search = () => go(linkWith({ q: input.value.trim() }), { replace: true });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  const form = el(
    "form",
    { class: "search", role: "search" },
    el("label", { for: "q" }, "Find hosts"),
    input,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
  form.nwsShow = (q) => {
    if (document.activeElement !== input) input.value = q;
  };
  return form;
}

function makeSection(group) {
  const table = hostTable(`Hosts of ${siteName(group.site)}`);
  const link = el("a", null, siteName(group.site));
  const told = el("span", { class: "told" });
  const node = el("section", { class: "site" }, el("h2", null, link, told), table);
  node.nwsParts = { link, told, table };
  return node;
}

function updateSection(node, group) {
  const { link, told, table } = node.nwsParts;
  const f = figuresOf(group.records);
  setAttribute(link, "href", linkTo({ site: group.site }));
  setText(
    told,
    [
      `${count(f.hosts)} ${f.hosts === 1 ? "host" : "hosts"}`,
      f.lost ? `${f.lost} lost` : "",
      f.stale ? `${f.stale} stale` : "",
    ]
      .filter(Boolean)
      .join(", "),
  );
  table.nwsShow(group.records);
}

function makeSiteRow() {
  const cells = ["hosts", "lost", "stale", "cpu", "memory"].map((name) => el("td", { data: { tile: name } }));
  const age = ageNode();
  const link = el("a");
  const row = el("tr", null, el("th", { scope: "row" }, link), cells, el("td", null, age));
  row.nwsParts = { link, cells, age };
  return row;
}

function updateSiteRow(row, group) {
  const { link, cells, age } = row.nwsParts;
  const f = figuresOf(group.records);
  setAttribute(link, "href", linkTo({ site: group.site }));
  setText(link, siteName(group.site));
  [
    count(f.hosts),
    count(f.lost),
    count(f.stale),
    f.cpu === null ? "–" : digits(f.cpu),
    quantity(f.memory, "B"),
  ].forEach((text, i) => {
    setText(cells[i], text);
    setAttribute(cells[i], "data-some", (i === 1 || i === 2) && text !== "0" ? "yes" : null);
  });
  const times = group.records.filter((r) => !r.lost && r.measured_at !== null).map((r) => r.measured_at);
  setMeasuredAt(age, times.length ? Math.min(...times) : null);
}

function siteTable() {
  const body = el("tbody");
  const heads = ["Site", "Hosts", "Lost", "Stale", "Median CPU", "Free memory", "Oldest value"];
  const node = el(
    "table",
    { class: "sitelist" },
    el("caption", { class: "unseen" }, "Sites"),
    el(
      "thead",
      null,
      el(
        "tr",
        null,
        heads.map((h) => el("th", { scope: "col" }, h)),
      ),
    ),
    body,
  );
  node.nwsShow = (groups) =>
    reconcile(body, groups, { key: (g) => g.site, make: makeSiteRow, update: updateSiteRow });
  return node;
}

function bySite(records) {
  const found = new Map();
  for (const record of records)
    (found.get(record.site) ?? found.set(record.site, []).get(record.site)).push(record);
  return [...found]
    .map(([site, own]) => ({ site, records: own }))
    .sort((a, b) => byName(siteName(a.site), siteName(b.site)));
}

/** Return the view; `site` undefined: the whole grid. */
export function sitesView({ site, gridName }) {
  const whole = site === undefined;
  const top = tiles();
  const search = searchForm();
  const note = el("p", { class: "note", role: "status" });
  const sections = el("div", { class: "sites" });
  const list = siteTable();
  const lately = eventList(20);
  const heading = el("h1", { tabindex: "-1" }, whole ? gridName() : siteName(site));
  const matrix = el("a", null, "Links of this site");
  const element = el(
    "div",
    null,
    heading,
    top,
    el("div", { class: "controls" }, search, whole ? null : matrix),
    note,
    list,
    sections,
    el("section", null, el("h2", null, "Events"), lately),
  );
  let records = null;

  function draw() {
    if (!records) return;
    const state = address();
    const own = whole ? records : records.filter((r) => r.site === site);
    const found = select(own, state);
    setText(heading, whole ? gridName() : siteName(site));
    setAttribute(matrix, "href", linkTo({ view: "matrix", rows: siteName(site) }));
    search.nwsShow(state.q);
    top.nwsShow(figuresOf(own));
    const bySites = whole && !state.q && own.length > MOST_LISTED;
    list.hidden = !bySites;
    list.nwsShow(bySites ? bySite(own) : []);
    const listed = whole ? found.slice(0, MOST_LISTED) : found;
    reconcile(sections, bySites ? [] : bySite(listed), {
      key: (g) => g.site,
      make: makeSection,
      update: updateSection,
    });
    setText(note, noteOf(own, found, listed, state));
  }

  function noteOf(own, found, listed, state) {
    if (!own.length)
      return whole
        ? "No host has registered yet. Start “nws sensor --server” with this server's address on each host."
        : `No host states the site ${siteName(site)}.`;
    const parts = [];
    if (state.q) parts.push(`${count(found.length)} of ${count(own.length)} hosts fit “${state.q}”.`);
    if (listed.length < found.length && state.q) parts.push(`The first ${MOST_LISTED} are shown.`);
    if (state.range === "custom")
      parts.push("Figures are of now; the small lines and events of the time chosen.");
    return parts.join(" ");
  }

  return {
    element,
    title: whole ? "" : siteName(site),
    crumbs: () => (whole ? [] : [{ text: siteName(site), href: linkTo({ site }) }]),
    async load(signal) {
      const { since, until } = span(address(), now());
      const [hosts, cpu, memory, happened] = await Promise.all([
        api.hosts(signal),
        api.seriesList({ resource: "cpu.new" }, signal),
        api.seriesList({ resource: "memory.free" }, signal),
        api.events({ since: since.toFixed(3), until: until.toFixed(3), most: MOST_EVENTS }, signal),
      ]);
      records = recordsOf(hosts.hosts, cpu.series, memory.series);
      const own = whole ? null : new Set(records.filter((r) => r.site === site).map((r) => r.name));
      lately.nwsShow(happened.events.filter((e) => !own || !e.host || own.has(e.host)));
      draw();
    },
    every_s: () => (records && records.length > 200 ? 20 : 10),
    changed: draw,
  };
}
