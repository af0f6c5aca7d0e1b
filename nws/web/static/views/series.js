/* One series: a large plot, the forecast in numbers, its events, and links to its neighbours. */

import * as api from "../api.js";
import { address, linkTo, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el } from "../dom.js";
import { MOST_EVENTS, about, eventList } from "../marks.js";
import { parseSeries, title as titleOf } from "../names.js";
import { closeAll, figure } from "../plot/figure.js";
import { count, quantity } from "../units.js";

function numbers(forecast, lost) {
  const age = ageNode();
  setMeasuredAt(age, forecast.measured_at, lost);
  const shown = (value) => {
    const node = el("span", { class: "value" }, quantity(value, forecast.unit));
    setMeasuredAt(node, forecast.measured_at, lost);
    return node;
  };
  const pairs = [
    ["Last measured", shown(forecast.last)],
    ["Age", age],
    ["Forecast of the next", shown(forecast.value)],
    ["Expected error (MAE)", shown(forecast.mae)],
    ["Expected error (RMSE)", shown(forecast.rmse)],
    ["Method", el("code", null, forecast.method)],
    ["Samples seen", count(forecast.samples)],
  ];
  return pairs.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value)));
}

function neighbours(name) {
  const { resource, host, peer } = parseSeries(name);
  if (peer === null || peer === host) return null;
  const other = {
    "network.latency": ["network.bandwidth", "Bandwidth"],
    "network.bandwidth": ["network.latency", "Latency"],
  }[resource];
  return el(
    "p",
    { class: "neighbours" },
    el("a", { href: linkTo({ series: `${resource}@${peer}>${host}` }) }, "The way back"),
    " · ",
    other
      ? [
          el("a", { href: linkTo({ series: `${other[0]}@${host}>${peer}` }) }, `${other[1]} of this link`),
          " · ",
        ]
      : null,
    el("a", { href: linkTo({ host: peer }) }, `Host ${peer}`),
  );
}

/** Return the view of a series. `onPlot(error | null)` receives the outcome of its plot. */
export function seriesView({ name, site, onPlot }) {
  const { host, peer } = parseSeries(name);
  const dl = el("dl", { class: "facts" });
  const place = el("div");
  const lately = eventList(50);
  const element = el(
    "div",
    null,
    el("h1", { tabindex: "-1" }, titleOf(name)),
    el("p", { class: "seriesname" }, el("code", null, name)),
    dl,
    place,
    neighbours(name),
    el("section", null, el("h2", null, "Events"), lately),
  );
  let plot = null;

  return {
    element,
    title: titleOf(name),
    crumbs: () => {
      const own = site(host);
      return [
        own === null ? null : { text: own || "no site", href: linkTo({ site: own }) },
        { text: host, href: linkTo({ host }) },
        { text: titleOf(name), href: linkTo({ series: name }) },
      ].filter(Boolean);
    },
    async load(signal) {
      const { since, until } = span(address(), now());
      const [answer, hosts, happened] = await Promise.all([
        api.forecasts([name], signal),
        api.hosts(signal),
        api.events({ since: since.toFixed(3), until: until.toFixed(3), most: MOST_EVENTS }, signal),
      ]);
      const forecast = answer.forecasts.find((f) => f.series === name);
      if (!forecast) throw new api.Refused(404, `There is no series ${name}.`, [], null);
      const lost = hosts.hosts.some((h) => h.lost && (h.name === host || h.name === peer));
      dl.replaceChildren(...numbers(forecast, lost));
      if (!plot) {
        plot = figure({
          series: name,
          unit: forecast.unit,
          heading: "Measured and forecast",
          large: true,
          onPlot,
        });
        place.replaceChildren(plot);
      }
      plot.nwsMeasuredAt(forecast.measured_at, lost);
      plot.nwsRefresh(happened.events);
      lately.nwsShow(about(happened.events, [host, peer]));
    },
    every_s: () => Math.max(10, (span(address(), now()).until - span(address(), now()).since) / 1000),
    close: () => closeAll(element),
  };
}
