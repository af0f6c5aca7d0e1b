/* Links of a snapshot: for each ordered pair of hosts the measured or composed values and their age. Pure. */

import { parseSeries } from "../names.js";

export const keyOf = (from, to) => `${from}>${to}`;

/* The forecast; the last measurement if there is no forecast yet. */
const best = (forecast, last) => forecast ?? last ?? null;

/**
 * Map `"a>b"` → link. A link: `{from, to, latency_s, latency_error_s, bandwidth_Bps, bandwidth_error_Bps,
 * measured_at, through}`; `measured_at` is of its oldest part, `through` null where it is measured itself.
 */
export function linksOf(snapshot) {
  const links = new Map();
  const link = (from, to) => {
    const key = keyOf(from, to);
    if (!links.has(key)) {
      links.set(key, {
        key,
        from,
        to,
        latency_s: null,
        latency_error_s: null,
        bandwidth_Bps: null,
        bandwidth_error_Bps: null,
        measured_at: Infinity,
        through: null,
      });
    }
    return links.get(key);
  };
  const { series } = snapshot;
  series.name.forEach((name, i) => {
    if (!name.startsWith("network.")) return;
    const { resource, host, peer } = parseSeries(name);
    const part = { "network.latency": "latency", "network.bandwidth": "bandwidth" }[resource];
    if (!part || peer === null) return;
    const value = best(series.forecast[i], series.last[i]);
    if (value === null) return;
    const one = link(host, peer);
    one[part === "latency" ? "latency_s" : "bandwidth_Bps"] = value;
    one[part === "latency" ? "latency_error_s" : "bandwidth_error_Bps"] = series.mae[i];
    one.measured_at = Math.min(one.measured_at, series.measured_at[i]);
  });
  const composed = snapshot.composed;
  composed?.from.forEach((from, i) => {
    const to = composed.to[i];
    if (links.has(keyOf(from, to))) return;
    Object.assign(link(from, to), {
      latency_s: composed.latency_s[i],
      latency_error_s: composed.latency_error_s[i],
      bandwidth_Bps: composed.bandwidth_Bps[i],
      bandwidth_error_Bps: composed.bandwidth_error_Bps[i],
      measured_at: composed.measured_at[i],
      through: composed.through[i],
    });
  });
  return links;
}

const ratio = (a, b) => (a > 0 && b > 0 ? a / b : null);

/** Return the ratio of a link to its reverse, by latency and by bandwidth: `{latency, bandwidth, worst}`. */
export function asymmetry(links, link) {
  const back = links.get(keyOf(link.to, link.from));
  if (!back || link.from === link.to) return { latency: null, bandwidth: null, worst: null };
  const latency = ratio(link.latency_s, back.latency_s);
  const bandwidth = ratio(back.bandwidth_Bps, link.bandwidth_Bps);
  const both = [latency, bandwidth].filter((v) => v !== null);
  return { latency, bandwidth, worst: both.length ? Math.max(...both) : null };
}
