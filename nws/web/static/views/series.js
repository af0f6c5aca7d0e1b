/* One series: a large plot, the forecast in numbers and by horizon, its events, and links to its neighbours. */

import * as api from "../api.js";
import { address, linkTo, span } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { now } from "../clock.js";
import { el } from "../dom.js";
import { MOST_EVENTS, about, eventList } from "../marks.js";
import { parseSeries, title as titleOf } from "../names.js";
import { closeAll, figure } from "../plot/figure.js";
import { TABLE_S, fan, spans } from "../plot/data.js";
import { count, duration, percent, quantity } from "../units.js";

/* Outcomes whose shares are whole percents. */
const FEW = 100;

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

/* Return the rows of the table of outlooks: mean over each span, its 80 % interval, and how often such ones held. */
function horizons(forecast, shares) {
  const [low, median, high] = [0.1, 0.5, 0.9].map((share) => shares.indexOf(share));
  return forecast.outlooks
    .filter((one) => TABLE_S.includes(one.over_s))
    .map(({ over_s, quantiles, held, outcomes }) =>
      el(
        "tr",
        null,
        el("th", { scope: "row" }, duration(over_s)),
        el("td", null, quantity(quantiles[median], forecast.unit)),
        el(
          "td",
          null,
          `${quantity(quantiles[low], forecast.unit)} … ${quantity(quantiles[high], forecast.unit)}`,
        ),
        el("td", null, heldOf(held, Math.round(outcomes))),
      ),
    );
}

/* How many past intervals held: their number while a percentage of so few would be none of them. */
function heldOf(held, outcomes) {
  if (held === null) return "not judged yet";
  return outcomes < FEW ? `${Math.round(held * outcomes)} of ${outcomes}` : `${percent(held)} of ${count(outcomes)}`;
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
  const ahead = el("tbody");
  const lately = eventList(50);
  const element = el(
    "div",
    null,
    el("h1", { tabindex: "-1" }, titleOf(name)),
    el("p", { class: "seriesname" }, el("code", null, name)),
    dl,
    place,
    el(
      "section",
      null,
      el("h2", null, "Mean from now on"),
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Forecasts of the mean, by horizon" },
        el(
          "table",
          { class: "horizons" },
          el(
            "thead",
            null,
            el(
              "tr",
              null,
              ["Over the next", "Median", "80 % interval", "Past intervals that held"].map((h) =>
                el("th", { scope: "col" }, h),
              ),
            ),
          ),
          ahead,
        ),
      ),
    ),
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
        api.forecasts([name], spans(until - since), signal),
        api.hosts(signal),
        api.events({ since: since.toFixed(3), until: until.toFixed(3), most: MOST_EVENTS }, signal),
      ]);
      const forecast = answer.forecasts.find((f) => f.series === name);
      if (!forecast) throw new api.Refused(404, `There is no series ${name}.`, [], null);
      const lost = hosts.hosts.some((h) => h.lost && (h.name === host || h.name === peer));
      dl.replaceChildren(...numbers(forecast, lost));
      ahead.replaceChildren(...horizons(forecast, answer.shares));
      // a plot of the past has no room for the future
      const future = address().range === "custom" ? [] : fan(forecast.outlooks, answer.shares, now(), until - since);
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
      plot.nwsRefresh(happened.events, future);
      lately.nwsShow(about(happened.events, [host, peer]));
    },
    every_s: () => Math.max(10, (span(address(), now()).until - span(address(), now()).since) / 1000),
    close: () => closeAll(element),
  };
}
