/* Numbers as people read them: three digits, the unit's own prefixes, spans of time in words, local times of day.
   The same scales as `nws show` prints. */

const BYTES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const SECONDS = [
  [1, ""],
  [1e-3, "m"],
  [1e-6, "µ"],
  [1e-9, "n"],
];
const NONE = "–";

/** Three significant digits without exponent. */
export function digits(value) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size >= 6 || size < -6) return value.toExponential(2);
  return value.toFixed(Math.min(Math.max(2 - size, 0), 8));
}

/** Factor and unit in which values of about `size` are told: `{factor: 1e-3, unit: "ms"}`. */
export function scaleOf(size, unit) {
  const prefixes = unit.startsWith("B") ? BYTES : unit === "s" ? SECONDS : [];
  for (const [factor, prefix] of prefixes) {
    if (Math.abs(size) >= factor) return { factor, unit: prefix + unit };
  }
  if (unit === "s" && size !== 0) return { factor: 1e-9, unit: "ns" };
  return { factor: 1, unit };
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A value with its unit: `0.981 CPU`, `23.0 GB`, `53.4 µs`; a dash where there is none. */
export function quantity(value, unit) {
  if (!known(value)) return NONE;
  const scale = scaleOf(value, unit);
  return `${digits(value / scale.factor)} ${scale.unit}`.trim();
}

/** A value with its expected error in the same prefix: `0.981 ± 0.020 CPU`. */
export function withError(value, error, unit) {
  if (!known(value)) return NONE;
  if (!known(error)) return quantity(value, unit);
  const scale = scaleOf(value, unit);
  return `${digits(value / scale.factor)} ± ${digits(error / scale.factor)} ${scale.unit}`.trim();
}

/** A span of time, coarse: `4 s`, `12 min`, `3.5 h`, `2.1 d`. */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds >= 86400) return `${(seconds / 86400).toFixed(1)} d`;
  if (seconds >= 3600) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 120) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(Math.max(seconds, 0))} s`;
}

export const count = (n) => (known(n) ? n.toLocaleString("en") : NONE);
export const percent = (share) => (known(share) ? `${Math.round(100 * share)} %` : NONE);

const two = (n) => String(n).padStart(2, "0");
const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

/** Local date and time to the second: `2026-11-21 13:08:30`. */
export function moment(t) {
  if (!known(t)) return NONE;
  const d = new Date(1000 * t);
  return `${day(d)} ${clockTime(t)}`;
}

/** Local time of day: `13:08:30`. */
export function clockTime(t) {
  const d = new Date(1000 * t);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** What `<input type=datetime-local>` takes for a time. */
export function inputTime(t) {
  const d = new Date(1000 * t);
  return `${day(d)}T${clockTime(t)}`;
}

const SPAN = /^\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*([^\s0-9]*)\s*$/i;
const FACTORS = {
  s: { ns: 1e-9, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1, min: 60, m: 60, h: 3600, d: 86400 },
  "B/s": {
    "b/s": 1,
    "kb/s": 1e3,
    "mb/s": 1e6,
    "gb/s": 1e9,
    "tb/s": 1e12,
    b: 1,
    kb: 1e3,
    mb: 1e6,
    gb: 1e9,
    k: 1e3,
    m: 1e6,
    g: 1e9,
  },
  "×": { "×": 1, x: 1 },
};

/** The number that somebody typed, such as `5 ms` or `100MB/s`, in `unit`; null when it makes no sense. */
export function parseQuantity(text, unit, bare) {
  const match = SPAN.exec(text ?? "");
  if (!match) return null;
  const factor = match[2] === "" ? bare : FACTORS[unit][match[2].toLowerCase()];
  const value = Number(match[1]) * factor;
  return Number.isFinite(value) && value > 0 ? value : null;
}
