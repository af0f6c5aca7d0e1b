/* Measures of the matrix: each one's value of a link, its unit, its worse side, and its colours, either against a
   threshold of all links or of one, or by rank from best to worst. Pure but for the clock. */

import { now } from "../clock.js";
import { digits, duration, parseQuantity, quantity, scaleOf } from "../units.js";
import { asymmetry } from "./links.js";

export const STEPS = 6;

const times = (v) => `×\u00a0${digits(v)}`;

export const MEASURES = {
  latency: {
    name: "Latency",
    unit: "s",
    bare: 1e-3,
    example: "5 ms",
    higherIsWorse: true,
    of: (link) => link.latency_s,
    text: (v) => quantity(v, "s"),
  },
  bandwidth: {
    name: "Bandwidth",
    unit: "B/s",
    bare: 1e6,
    example: "100 MB/s",
    higherIsWorse: false,
    of: (link) => link.bandwidth_Bps,
    text: (v) => quantity(v, "B/s"),
  },
  age: {
    name: "Age",
    unit: "s",
    bare: 1,
    example: "5 min",
    higherIsWorse: true,
    of: (link) => (Number.isFinite(link.measured_at) ? Math.max(now() - link.measured_at, 0) : null),
    text: duration,
  },
  asymmetry: {
    name: "Asymmetry",
    unit: "×",
    bare: 1,
    example: "1.5",
    higherIsWorse: true,
    of: (link, links) => asymmetry(links, link).worst,
    text: times,
  },
};

/** Return a typed threshold of a measure in its unit; null if there is none or it is invalid. */
export const parseLimit = (measure, text) => parseQuantity(text, measure.unit, measure.bare);

/** Return thresholds of single links, `a>b:5ms,c>d:20ms` → Map. */
export function parseLimits(measure, text) {
  const found = new Map();
  for (const part of text.split(",")) {
    const colon = part.lastIndexOf(":");
    const limit = colon > 0 ? parseLimit(measure, part.slice(colon + 1)) : null;
    if (limit !== null) found.set(part.slice(0, colon), part.slice(colon + 1));
  }
  return found;
}

export const formatLimits = (limits) => [...limits].map(([key, text]) => `${key}:${text}`).join(",");

/** Return short text for a cell of the matrix, and the unit shared by all cells. */
export function cellFormat(name, values) {
  if (name === "age") return { unit: "", text: (v) => duration(v).replace("min", "m").replace(" ", "") };
  if (name === "asymmetry") return { unit: "times the way back", text: (v) => digits(v) };
  const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
  const scale = scaleOf(sorted[Math.floor(sorted.length / 2)] ?? 0, MEASURES[name].unit);
  return { unit: scale.unit, text: (v) => short(v / scale.factor) };
}

function short(v) {
  if (v >= 9999.5) return `${digits(v / 1000)}k`;
  return v >= 99.5 ? v.toFixed(0) : Number(v.toPrecision(2)).toString();
}

/** Return the ratio of a value to a threshold: below 0.5 well within, to 1 within, to 2 beyond, more far beyond. */
export function verdict(measure, value, limit) {
  const share = measure.higherIsWorse ? value / limit : limit / value;
  if (share <= 0.5) return "well";
  if (share <= 1) return "within";
  return share <= 2 ? "beyond" : "far";
}

/** Return a function value → step 0 (best) … STEPS − 1, with bounds of equal ratios. */
export function steps(measure, values) {
  const positive = values.filter((v) => v > 0);
  let low = Infinity;
  let high = -Infinity;
  for (const v of positive) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  const wide = high > low * 1.0001;
  const place = (v) => {
    if (!wide) return 0;
    const share = Math.log(Math.max(v, low) / low) / Math.log(high / low);
    return Math.min(Math.floor((measure.higherIsWorse ? share : 1 - share) * STEPS), STEPS - 1);
  };
  return { place, low, high, wide };
}
