/* A plot document of the server as columns to draw, gaps to hatch, a sentence and a table. Pure. */

import { duration, moment, quantity, withError } from "../units.js";

const isNumber = (v) => typeof v === "number" && Number.isFinite(v);

/** Return columns for uPlot: times, minimum, maximum, forecast minus and plus its error, forecast, measured. */
export function columns(document) {
  const n = document.t.length;
  const blank = () => new Array(n).fill(null);
  const column = (name) => (Array.isArray(document[name]) ? document[name] : blank());
  const low = column("low");
  const high = column("high");
  const forecast = column("forecast");
  const error = column("error");
  const edge = (sign) =>
    forecast.map((f, i) => (isNumber(f) && isNumber(error[i]) ? f + sign * error[i] : null));
  return {
    t: document.t,
    low,
    high,
    under: edge(-1),
    over: edge(1),
    forecast,
    error,
    value: column("value"),
  };
}

/* Spans of the fan, as parts of the plot's length, and of the table, in seconds. */
const FAN_PARTS = [0.01, 0.03, 0.07, 0.15];
export const TABLE_S = [60, 600, 3600, 86400];
const SHORTEST_S = 1;
const LONGEST_S = 604800;

/** Return the spans of outlooks to ask for: those of the fan beside a plot of so many seconds, and of the table. */
export const spans = (length_s) =>
  [...FAN_PARTS.map((part) => part * length_s).filter((s) => s >= SHORTEST_S && s <= LONGEST_S), ...TABLE_S];

/** Return the fan to draw after a plot of so many seconds: `{t, low, median, high}` of means up to each time. */
export function fan(outlooks, shares, now, length_s) {
  const [low, median, high] = [0.1, 0.5, 0.9].map((share) => shares.indexOf(share));
  const end = 1.01 * FAN_PARTS.at(-1) * length_s;
  return outlooks
    .filter((one) => one.over_s <= end && isNumber(one.quantiles[median]))
    .map((one) => ({
      t: now + one.over_s,
      low: one.quantiles[low],
      median: one.quantiles[median],
      high: one.quantiles[high],
    }));
}

/** Return whether the points are means over longer times, with minimum and maximum each. */
export const isRolledUp = (c) =>
  c.low.some((low, i) => isNumber(low) && isNumber(c.high[i]) && c.high[i] > low);

/** Return times without values, `[[from, to], …]`: between points, and since the last one if that is too long ago. */
export function gaps(c, { since, until }, quiet_s) {
  const found = [];
  let last = null;
  let open = false;
  c.value.forEach((value, i) => {
    if (!isNumber(value)) {
      open = true;
    } else {
      if (open && last !== null) found.push([last, c.t[i]]);
      open = false;
      last = c.t[i];
    }
  });
  if (last === null) found.push([since, until]);
  else if (until - last > quiet_s || open) found.push([last, until]);
  return found.filter(([from, to]) => to > from);
}

/** Return all values of the plot as one sentence. */
export function sentence(document, c, holes) {
  const values = c.value.filter(isNumber);
  const unit = document.unit;
  if (!values.length) return "No values in this time.";
  const lows = c.low.filter(isNumber);
  const highs = c.high.filter(isNumber);
  let least = Infinity;
  let greatest = -Infinity;
  let sum = 0;
  for (const v of lows.length ? lows : values) least = Math.min(least, v);
  for (const v of highs.length ? highs : values) greatest = Math.max(greatest, v);
  for (const v of values) sum += v;
  const last = c.value.findLastIndex(isNumber);
  const told = [
    `${values.length} ${document.resolution_s ? `means of ${duration(document.resolution_s)}` : "values"}`,
    `mean ${quantity(sum / values.length, unit)}`,
    `least ${quantity(least, unit)}`,
    `greatest ${quantity(greatest, unit)}`,
    `last ${quantity(c.value[last], unit)} at ${moment(c.t[last])}`,
  ];
  if (isNumber(c.forecast[last]))
    told.push(`forecast for it ${withError(c.forecast[last], c.error[last], unit)}`);
  told.push(holes.length ? `${holes.length} ${holes.length === 1 ? "gap" : "gaps"}` : "no gap");
  return `${told.join(", ")}.`;
}

/** Return rows of the plot's table, newest first, at most `most`; and the distance in points between them. */
export function rows(document, c, most = 240) {
  const every = Math.max(1, Math.ceil(c.t.length / most));
  const picked = [];
  for (let i = c.t.length - 1; i >= 0; i -= every) {
    picked.push([
      moment(c.t[i]),
      isNumber(c.value[i]) ? quantity(c.value[i], document.unit) : "gap",
      quantity(c.forecast[i], document.unit),
      isNumber(c.error[i]) ? `± ${quantity(c.error[i], document.unit)}` : "–",
      isNumber(c.low[i]) && isNumber(c.high[i])
        ? `${quantity(c.low[i], document.unit)} … ${quantity(c.high[i], document.unit)}`
        : "–",
    ]);
  }
  return { picked, every };
}

/** Return the plot as CSV with full precision. */
export function csv(document, c) {
  const text = (v) => (isNumber(v) ? String(v) : "");
  const lines = ["t,value,forecast,error,low,high"];
  c.t.forEach((t, i) =>
    lines.push([t, c.value[i], c.forecast[i], c.error[i], c.low[i], c.high[i]].map(text).join(",")),
  );
  return `${lines.join("\n")}\n`;
}
