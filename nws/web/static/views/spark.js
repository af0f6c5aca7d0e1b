/* A small line of one series over the selected time, for rows of a table. It loads when visible, from roll-ups if
   there are any, and seldom. Its name gives minimum and maximum. */

import * as api from "../api.js";
import { address, span } from "../address.js";
import { now } from "../clock.js";
import { setAttribute, svg } from "../dom.js";
import { quantity } from "../units.js";

const WIDTH = 120;
const HEIGHT = 24;
const POINTS = 120;

const sights = new IntersectionObserver((entries) =>
  entries.forEach((entry) => entry.target.nwsSight(entry.isIntersecting)),
);

/* Line through the means of POINTS equal intervals; an interval without values breaks the line. */
function path(d, { since, until }, top) {
  const sums = new Array(POINTS).fill(0);
  const counts = new Array(POINTS).fill(0);
  d.t.forEach((t, i) => {
    const v = d.value[i];
    const slot = Math.min(Math.floor(((t - since) / (until - since)) * POINTS), POINTS - 1);
    if (v === null || slot < 0) return;
    sums[slot] += v;
    counts[slot] += 1;
  });
  // samples further apart than a slot leave empty slots that are no gaps: the typical distance gives their
  // number
  const distances = d.t
    .slice(1)
    .map((t, i) => t - d.t[i])
    .sort((a, b) => a - b);
  const typical = distances[Math.floor(distances.length / 2)] ?? 0;
  const reach = 1 + Math.ceil((3 * typical * POINTS) / (until - since));
  let line = "";
  let last = -Infinity;
  counts.forEach((n, i) => {
    if (!n) return;
    const x = ((i + 0.5) / POINTS) * WIDTH;
    const y = HEIGHT - 1 - Math.min(sums[i] / n / top, 1) * (HEIGHT - 2);
    const jump = i - last > reach;
    line += `${jump ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    if (jump) line += `h0.01`;
    last = i;
  });
  return line;
}

/** Return the node; `nwsRefresh()` marks its data as outdated. `top`: value at the upper edge. */
export function spark({ series, unit, top, name }) {
  const line = svg("path", { class: "line" });
  const node = svg(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${name}: not loaded yet`,
    },
    line,
  );
  let seen = false;
  let due = 0;
  let loaded = "";
  let busy = false;

  async function load() {
    const over = span(address(), now());
    const wide = over.until - over.since;
    const which = `${address().range} ${address().from} ${address().to}`;
    if (busy || (which === loaded && performance.now() < due)) return;
    busy = true;
    try {
      const d = await api.samples(series, {
        since: over.since.toFixed(3),
        until: over.until.toFixed(3),
        most: 2 * POINTS,
      });
      loaded = which;
      due = performance.now() + Math.max(30000, (1000 * wide) / POINTS);
      const values = d.value.filter((v) => v !== null);
      setAttribute(line, "d", path(d, over, Math.max(top, ...values)) || "M0 0");
      setAttribute(
        node,
        "aria-label",
        values.length
          ? `${name}: ${quantity(Math.min(...values), unit)} to ${quantity(Math.max(...values), unit)}`
          : `${name}: no values`,
      );
    } catch {
      // the table reports failures of the server; the small line only retries at the next update
    } finally {
      busy = false;
    }
  }

  node.nwsSight = (inSight) => {
    seen = inSight;
    if (seen) load();
  };
  node.nwsRefresh = () => {
    if (seen) load();
  };
  sights.observe(node);
  return node;
}
