/* The drawing: uPlot with measurement, forecast, its error band, minimum…maximum, the fan of future means, hatched
   gaps and event marks.
   Colours come from the style sheets. Independent of the data's source. */

import { colourOf, glyphOf } from "../marks.js";
import { digits, scaleOf } from "../units.js";
import { isRolledUp } from "./data.js";

const two = (n) => String(n).padStart(2, "0");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function timeTicks(u, splits, axis, space, step_s) {
  let day = null;
  return splits.map((t) => {
    const d = new Date(1000 * t);
    const date = `${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    const time = `${two(d.getHours())}:${two(d.getMinutes())}${step_s < 60 ? `:${two(d.getSeconds())}` : ""}`;
    const isNew = date !== day;
    day = date;
    if (step_s >= 86400) return date;
    return isNew ? `${time}\n${date}` : time;
  });
}

function valueTicks(unit) {
  return (u, splits) => {
    const scale = scaleOf(Math.max(...splits.map(Math.abs)), unit);
    const suffix = unit === "CPU" || unit === "CPUs" || !unit ? "" : ` ${scale.unit}`;
    return splits.map((v) => (v === 0 ? "0" : `${Number(digits(v / scale.factor))}${suffix}`));
  };
}

/* A single value between two gaps has no line, so it needs a dot to be visible. */
function lonely(u, series, all) {
  if (all) return null;
  const values = u.data[series];
  const found = [];
  values.forEach((v, i) => {
    if (v !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null) found.push(i);
  });
  return found;
}

function hatch(u, holes, ink) {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const step = 7 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ink;
  ctx.lineWidth = devicePixelRatio;
  for (const [from, to] of holes) {
    const x0 = Math.max(u.valToPos(from, "x", true), left);
    const x1 = Math.min(u.valToPos(to, "x", true), left + width);
    if (x1 - x0 < 1) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(x0, top, x1 - x0, height);
    ctx.clip();
    ctx.beginPath();
    for (let x = Math.floor((x0 - height) / step) * step; x < x1; x += step) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

function drawMarks(u, events) {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.textAlign = "center";
  ctx.textBaseline = "bottom";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.lineWidth = devicePixelRatio;
  for (const event of events) {
    const x = u.valToPos(event.t, "x", true);
    if (x < left || x > left + width) continue;
    const ink = colour(colourOf(event.kind));
    ctx.strokeStyle = ink;
    ctx.fillStyle = ink;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.fillText(glyphOf(event.kind), x, top - devicePixelRatio);
  }
  ctx.restore();
}

function drawFan(u, points) {
  if (!points.length) return;
  const { ctx } = u;
  const x = (p) => u.valToPos(p.t, "x", true);
  const y = (v) => u.valToPos(v, "y", true);
  ctx.save();
  ctx.fillStyle = colour("--band");
  ctx.beginPath();
  points.forEach((p) => ctx.lineTo(x(p), y(p.high)));
  points.toReversed().forEach((p) => ctx.lineTo(x(p), y(p.low)));
  ctx.fill();
  ctx.strokeStyle = colour("--forecast");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  points.forEach((p) => ctx.lineTo(x(p), y(p.median)));
  ctx.stroke();
  ctx.restore();
}

function axis(unit) {
  const common = {
    stroke: () => colour("--muted"),
    grid: { stroke: () => colour("--grid"), width: 1 },
    ticks: { stroke: () => colour("--grid"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return [
    { ...common, values: timeTicks, space: 70, size: 50 },
    { ...common, values: valueTicks(unit), size: unit.startsWith("B") ? 78 : 58, space: 32 },
  ];
}

/* Zero is always visible, so that noise does not look like a collapse; a share of one CPU has its full scale. */
function valueRange(unit) {
  return (u, min, max) => {
    if (!Number.isFinite(max)) return [0, 1];
    if (unit === "CPU") return [0, Math.max(1.05, max)];
    return [Math.min(min, 0), max > 0 ? 1.08 * max : Math.max(max, min + 1)];
  };
}

function seriesOptions() {
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  return [
    {},
    { ...edge, label: "least" },
    { ...edge, label: "greatest" },
    { ...edge, label: "forecast − error" },
    { ...edge, label: "forecast + error" },
    {
      label: "forecast",
      stroke: () => colour("--forecast"),
      width: 1.5,
      dash: [6, 4],
      points: { show: false },
    },
    {
      label: "measured",
      stroke: () => colour("--measured"),
      width: 1.75,
      points: { size: 5, filter: lonely },
    },
  ];
}

/**
 * A chart in `root`. `onCursor(index | null)`: the point under the cursor; `onSelect(since, until)`: a stretch of
 * time was marked. Methods: `show({columns, span, holes, events, fan})`, `resize`, `redraw`, `point(index)`, `close`.
 */
export function chart(root, { unit, height, onCursor, onSelect }) {
  let shown = { span: { since: 0, until: 1 }, holes: [], events: [], fan: [] };
  let plain = [];
  const options = {
    width: Math.max(root.clientWidth, 120),
    height: height(),
    legend: { show: false },
    padding: [14, 20, 0, 0],
    scales: {
      x: {
        time: true,
        range: () => [shown.span.since, Math.max(shown.span.until, shown.fan.at(-1)?.t ?? 0)],
      },
      y: {
        range: (u, min, max) =>
          valueRange(unit)(
            u,
            Math.min(min ?? Infinity, ...shown.fan.map((p) => p.low)),
            Math.max(max ?? -Infinity, ...shown.fan.map((p) => p.high)),
          ),
      },
    },
    series: seriesOptions(),
    bands: [
      { series: [2, 1], fill: () => colour("--extent") },
      { series: [4, 3], fill: () => colour("--band") },
    ],
    axes: axis(unit),
    cursor: {
      y: false,
      points: { show: (u, i) => i >= 5 && undefined },
      drag: { x: true, y: false, setScale: false },
      sync: {
        key: "time",
        setSeries: false,
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
      },
    },
    hooks: {
      drawClear: [(u) => hatch(u, shown.holes, colour("--hatch"))],
      draw: [(u) => drawFan(u, shown.fan), (u) => drawMarks(u, shown.events)],
      setCursor: [(u) => onCursor(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          if (width < 8) return;
          const [since, until] = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          onSelect(since, until);
        },
      ],
    },
  };
  const u = new window.uPlot(options, [[], [], [], [], [], [], []], root);

  return {
    show(next) {
      shown = next;
      const c = next.columns;
      const hidden = isRolledUp(c) ? c : { low: c.t.map(() => null), high: c.t.map(() => null) };
      plain = [c.t, hidden.low, hidden.high, c.under, c.over, c.forecast, c.value];
      u.setData(plain);
    },
    resize() {
      const width = Math.max(root.clientWidth, 120);
      if (width !== u.width || height() !== u.height) u.setSize({ width, height: height() });
    },
    redraw: () => u.redraw(false, true),
    point(index) {
      const t = plain[0]?.[index];
      if (t === undefined) return u.setCursor({ left: -10, top: -10 });
      return u.setCursor({ left: u.valToPos(t, "x"), top: u.over.clientHeight / 2 });
    },
    close: () => u.destroy(),
  };
}
