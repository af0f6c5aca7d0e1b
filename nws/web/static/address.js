/* The page's address contains its whole state: view, time, measure and thresholds. Links are real links, and the
   back button and copied addresses work. Theme and token are personal and not included. */

export const RANGES = { "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "30d": 2592000 };
export const MEASURES = ["latency", "bandwidth", "age", "asymmetry"];
export const SORTS = ["name", "cpu", "memory", "age"];
export const STALE = { "1m": 60, "5m": 300, "15m": 900, "1h": 3600 };

const DEFAULTS = { range: "1h", live: "1", stale: "5m" };
/* Parts that a link to another view keeps; the others belong to one view. */
const SHARED = ["range", "from", "to", "live", "stale"];
const ORDER = [
  "site",
  "host",
  "series",
  "view",
  "measure",
  "by",
  "rows",
  "cols",
  "pair",
  "limit",
  "limits",
  "q",
  "sort",
  "kind",
  ...SHARED,
];

function number(text) {
  const value = Number(text);
  return text !== null && text !== "" && Number.isFinite(value) ? value : null;
}

/** Return the state in a query string; invalid parts count as absent. */
export function parse(search) {
  const query = new URLSearchParams(search);
  const raw = {};
  for (const name of ORDER) if (query.has(name)) raw[name] = query.get(name);
  const from = number(query.get("from"));
  const to = number(query.get("to"));
  const custom = from !== null && to !== null && from < to;
  const range = Object.hasOwn(RANGES, raw.range) ? raw.range : DEFAULTS.range;
  return {
    raw,
    place: placeOf(raw),
    site: raw.site,
    host: raw.host,
    series: raw.series,
    range: custom ? "custom" : range,
    from,
    to,
    live: (raw.live ?? DEFAULTS.live) !== "0",
    stale_s: STALE[raw.stale] ?? STALE[DEFAULTS.stale],
    measure: MEASURES.includes(raw.measure) ? raw.measure : "latency",
    by: raw.by === "clique" ? "clique" : "site",
    rows: raw.rows,
    cols: raw.cols,
    pair: raw.pair,
    limit: raw.limit ?? "",
    limits: raw.limits ?? "",
    q: raw.q ?? "",
    sort: SORTS.includes(raw.sort) ? raw.sort : "name",
    kind: raw.kind ?? "",
  };
}

function placeOf(raw) {
  if (raw.series) return "series";
  if (raw.host) return "host";
  if (raw.site !== undefined) return "site";
  return raw.view === "matrix" || raw.view === "events" ? raw.view : "grid";
}

function format(raw) {
  const query = new URLSearchParams();
  for (const name of ORDER) {
    const value = raw[name];
    if (value === undefined || value === null || value === DEFAULTS[name]) continue;
    if (value === "" && name !== "site") continue;
    query.set(name, value);
  }
  const text = query.toString();
  return text ? `?${text}` : "./";
}

/** Return the address of another view with the selected time. */
export function linkTo(place) {
  const raw = { ...place };
  for (const name of SHARED) if (!(name in raw)) raw[name] = current.raw[name];
  return format(raw);
}

/** Return the address of this view with some state changed; null or "" removes a part. */
export function linkWith(changes) {
  return format({ ...current.raw, ...changes });
}

let current = parse(window.location.search);
const listeners = new Set();

export const address = () => current;
export const onChange = (listener) => listeners.add(listener);

function arrive() {
  current = parse(window.location.search);
  for (const listener of listeners) listener(current);
}

/** Go to an address made by `linkTo` or `linkWith`; `replace` leaves no step for the back button. */
export function go(href, { replace = false } = {}) {
  const url = new URL(href, document.baseURI);
  if (url.href === window.location.href) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", url);
  arrive();
}

/** Handle plain clicks on links within the page; the browser handles others (new tab, download). */
export function followLinks(root) {
  root.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const target = link.getAttribute("href");
    if (link.download || !(target.startsWith("?") || target === "./")) return;
    event.preventDefault();
    go(target);
  });
  window.addEventListener("popstate", arrive);
}

/** Return the selected time, `{since, until}` in seconds since the epoch, for the server's `now`. */
export function span(state, now) {
  if (state.range === "custom") return { since: state.from, until: state.to };
  return { since: now - RANGES[state.range], until: now };
}
