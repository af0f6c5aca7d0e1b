/* Readable numbers: three digits, the unit's prefixes, durations in words, local times of day. Same scales as `nws
   show`. */

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

/** Return three significant digits without exponent. */
export function digits(value) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size >= 6 || size < -6) return value.toExponential(2);
  return value.toFixed(Math.min(Math.max(2 - size, 0), 8));
}

/** Return factor and unit for values of about `size`: `{factor: 1e-3, unit: "ms"}`. */
export function scaleOf(size, unit) {
  const prefixes = unit.startsWith("B") ? BYTES : unit === "s" ? SECONDS : [];
  for (const [factor, prefix] of prefixes) {
    if (Math.abs(size) >= factor) return { factor, unit: prefix + unit };
  }
  if (unit === "s" && size !== 0) return { factor: 1e-9, unit: "ns" };
  return { factor: 1, unit };
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** Return a value with its unit: `0.981 CPU`, `23.0 GB`, `53.4 µs`; a dash for none. */
export function quantity(value, unit) {
  if (!known(value)) return NONE;
  const scale = scaleOf(value, unit);
  return `${digits(value / scale.factor)} ${scale.unit}`.trim();
}

/** Return a value with its expected error in the same prefix: `0.981 ± 0.020 CPU`. */
export function withError(value, error, unit) {
  if (!known(value)) return NONE;
  if (!known(error)) return quantity(value, unit);
  const scale = scaleOf(value, unit);
  return `${digits(value / scale.factor)} ± ${digits(error / scale.factor)} ${scale.unit}`.trim();
}

/** Return a rounded duration: `4 s`, `12 min`, `3.5 h`, `2.1 d`. */
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

/** Return local date and time to the second: `2026-11-21 13:08:30`. */
export function moment(t) {
  if (!known(t)) return NONE;
  const d = new Date(1000 * t);
  return `${day(d)} ${clockTime(t)}`;
}

/** Return the local time of day: `13:08:30`. */
export function clockTime(t) {
  const d = new Date(1000 * t);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Return a time in the format of `<input type=datetime-local>`. */
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

/** Return a typed number, such as `5 ms` or `100MB/s`, in `unit`; null if it is invalid. */
export function parseQuantity(text, unit, bare) {
  const match = SPAN.exec(text ?? "");
  if (!match) return null;
  const factor = match[2] === "" ? bare : FACTORS[unit][match[2].toLowerCase()];
  const value = Number(match[1]) * factor;
  return Number.isFinite(value) && value > 0 ? value : null;
}
