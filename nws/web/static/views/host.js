/* One host: description, state of its sensor, plots of all its series; those of links by peer. */

import * as api from "../api.js";
import { address, linkTo, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el, reconcile, setText } from "../dom.js";
import { MOST_EVENTS, about, eventList } from "../marks.js";
import { byName, byResource, label, parseSeries } from "../names.js";
import { closeAll, figure } from "../plot/figure.js";
import { count, duration, moment, quantity } from "../units.js";

const RUNS = ["done", "failed", "missed", "skipped", "merged"];
const SAMPLES = [
  ["buffered", "waiting on its disk"],
  ["dropped", "dropped"],
];

function facts(host) {
  const seen = ageNode();
  setMeasuredAt(seen, host.last_seen, host.lost);
  const pairs = [
    ["State", el("span", { class: host.lost ? "state bad" : "state" }, host.lost ? "✕ lost" : "● there")],
    ["Fault", host.fault],
    ["Last heard of", seen],
    ["Address", !host.address ? "" : host.port ? `${host.address}, port ${host.port}` : host.address],
    ["CPUs", [host.cpus || "", host.cpu_model].filter(Boolean).join(" × ")],
    ["Memory", host.memory_bytes ? quantity(host.memory_bytes, "B") : ""],
    ["Cliques", (host.cliques ?? []).join(", ")],
    ["Registered", host.registered_at ? moment(host.registered_at) : "never; its series come from elsewhere"],
    ...sensorFacts(host.version, host.status ?? {}),
  ];
  return pairs
    .filter(([, value]) => value)
    .map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value)));
}

function sensorFacts(version, status) {
  const has = (name) => typeof status[name] === "number";
  const told = (name, text) => `${count(status[name])} ${text}`;
  const spent = [
    has("cpu_s") ? `${duration(status.cpu_s)} of CPU time` : "",
    has("rss_bytes") ? quantity(status.rss_bytes, "B") : "",
  ];
  return [
    ["Sensor", [version, ...spent].filter(Boolean).join(", ")],
    [
      "Its measurements",
      RUNS.filter(has)
        .map((name) => told(name, name))
        .join(", "),
    ],
    [
      "Its samples",
      SAMPLES.filter(([name]) => has(name))
        .map(([name, text]) => told(name, text))
        .join(", "),
    ],
  ];
}

/* Sections: the host's own series, then one for each peer. */
function sectionsOf(list, name) {
  const own = [];
  const peers = new Map();
  for (const one of list) {
    const { host, peer } = parseSeries(one.series);
    if (peer === null) own.push(one);
    else {
      const other = host === name ? peer : host;
      (peers.get(other) ?? peers.set(other, []).get(other)).push(one);
    }
  }
  const order = (a, b) => {
    const [x, y] = [parseSeries(a.series), parseSeries(b.series)];
    return byResource(x.resource, y.resource) || (x.host === name ? -1 : 1);
  };
  const sections = own.length
    ? [{ key: "", title: "The host itself", list: own.sort(order), open: true }]
    : [];
  const within = (peer) => (peer === name ? 0 : 1);
  for (const peer of [...peers.keys()].sort((a, b) => within(a) - within(b) || byName(a, b))) {
    sections.push({
      key: `>${peer}`,
      peer,
      title: peer === name ? "Within the host" : `Links with ${peer}`,
      list: peers.get(peer).sort(order),
    });
  }
  return sections;
}

function heading(one) {
  const { resource, host, peer } = parseSeries(one.series);
  return peer === null ? label(resource) : `${label(resource)} ${host} → ${peer}`;
}

/** Return the view of a host. `onPlot(error | null)` receives the outcome of each plot. */
export function hostView({ name, site, onPlot }) {
  const dl = el("dl", { class: "facts" });
  const plots = el("div", { class: "plots" });
  const lately = eventList(20);
  const title = el("h1", { tabindex: "-1" }, name);
  const note = el("p", { class: "note" });
  const element = el(
    "div",
    null,
    title,
    dl,
    note,
    plots,
    el("section", null, el("h2", null, "Events"), lately),
  );
  const state = { host: null, events: [], list: [] };

  function makeSection(section) {
    const grid = el("div", { class: "plotgrid" });
    const node = el(
      "details",
      { class: "plotsection", open: section.open === true },
      el("summary", null, el("h2", null, section.title), el("span", { class: "told" })),
      grid,
    );
    node.nwsGrid = grid;
    node.addEventListener("toggle", () => fill(node));
    node.nwsClose = () => closeAll(node);
    return node;
  }

  function fill(node) {
    if (!node.open) return;
    reconcile(node.nwsGrid, node.nwsSection.list, {
      key: (one) => one.series,
      make: (one) => figure({ series: one.series, unit: one.unit, heading: heading(one), onPlot }),
      update(plot, one) {
        plot.nwsMeasuredAt(one.measured_at, state.host.lost);
        plot.nwsRefresh(state.events);
      },
    });
  }

  function updateSection(node, section) {
    node.nwsSection = section;
    setText(node.querySelector(".told"), `${section.list.length} series`);
    fill(node);
  }

  return {
    element,
    title: name,
    crumbs: () => {
      const own = state.host?.site ?? site();
      return [
        own === null ? null : { text: own || "no site", href: linkTo({ site: own }) },
        { text: name, href: linkTo({ host: name }) },
      ].filter(Boolean);
    },
    async load(signal) {
      const { since, until } = span(address(), now());
      const [host, list, happened] = await Promise.all([
        api.host(name, signal),
        api.seriesList({ host: name }, signal),
        api.events({ since: since.toFixed(3), until: until.toFixed(3), most: MOST_EVENTS }, signal),
      ]);
      Object.assign(state, { host: { site: "", ...(host.host ?? host) }, events: happened.events });
      state.host.site ??= "";
      dl.replaceChildren(...facts(state.host));
      setText(note, list.series.length ? "" : "Nothing has been measured on this host yet.");
      const sections = sectionsOf(list.series, name);
      if (sections.length === 1) sections[0].open = true;
      reconcile(plots, sections, { key: (s) => s.key, make: makeSection, update: updateSection });
      lately.nwsShow(about(happened.events, [name]));
    },
    every_s: () => Math.max(10, (span(address(), now()).until - span(address(), now()).since) / 1000),
    close: () => closeAll(element),
  };
}
