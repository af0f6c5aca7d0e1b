/* The time selector for all views: a range that ends now or a fixed one, earlier and later, live updates, and the
   age from which values are stale. It only reads and writes the address. */

import { RANGES, STALE, address, go, linkWith, span } from "./address.js";
import { now } from "./clock.js";
import { el, setAttribute, setText } from "./dom.js";
import { inputTime, moment } from "./units.js";

const NAMES = { "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d" };
const STALE_NAMES = { "1m": "1 min", "5m": "5 min", "15m": "15 min", "1h": "1 h" };

/** Select the time from `since` to `until`, as a new step for the back button. */
export function showSpan(since, until) {
  go(linkWith({ range: null, from: since.toFixed(0), to: Math.max(until, since + 1).toFixed(0) }));
}

function shift(share) {
  const { since, until } = span(address(), now());
  const by = share * (until - since);
  showSpan(since + by, until + by);
}

function widen() {
  const { since, until } = span(address(), now());
  const half = until - since;
  const end = Math.min((since + until) / 2 + half, now());
  showSpan(end - 2 * half, end);
}

function button(text, name, action) {
  return el("button", { type: "button", "aria-label": name, title: name, on: { click: action } }, text);
}

/** Build the form in the header; returns a function that shows a new address in it. */
export function timeBar(form, { refresh }) {
  const links = Object.keys(RANGES).map((range) => el("a", { data: { range } }, NAMES[range]));
  const from = el("input", { type: "datetime-local", step: "1", id: "from", required: true });
  const to = el("input", { type: "datetime-local", step: "1", id: "to", required: true });
  const problem = el("p", { class: "problem", role: "alert" });
  const summary = el("summary", null, "From – to");
  const custom = el(
    "details",
    { class: "custom" },
    summary,
    el(
      "div",
      { class: "sheet" },
      el("label", { for: "from" }, "From"),
      from,
      el("label", { for: "to" }, "To"),
      to,
      problem,
      el("button", { type: "submit", class: "main" }, "Show"),
    ),
  );
  custom.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    custom.open = false;
    summary.focus();
  });
  const live = el("button", { type: "button", class: "live" }, "Live");
  live.addEventListener("click", () =>
    go(linkWith({ live: address().live ? "0" : null }), { replace: true }),
  );
  const stale = el(
    "select",
    { id: "stale" },
    Object.keys(STALE).map((name) => el("option", { value: name }, STALE_NAMES[name])),
  );
  stale.addEventListener("change", () => go(linkWith({ stale: stale.value }), { replace: true }));
  const shown = el("span", { class: "span" });

  form.replaceChildren(
    el("div", { class: "ranges", role: "group", "aria-label": "Range" }, links, custom),
    el(
      "div",
      { class: "steps", role: "group", "aria-label": "Move the range" },
      button("◀", "Earlier", () => shift(-0.5)),
      button("▶", "Later", () => shift(0.5)),
      button("⤢", "Wider", widen),
    ),
    el("div", { class: "steps" }, live, button("⟳", "Refresh now", refresh)),
    el("span", { class: "pick" }, el("label", { for: "stale" }, "Stale after"), stale),
    shown,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const since = Date.parse(from.value) / 1000;
    const until = Date.parse(to.value) / 1000;
    if (!(since < until)) {
      setText(problem, "“From” must be before “To”.");
      from.focus();
      return;
    }
    setText(problem, "");
    custom.open = false;
    showSpan(since, until);
    summary.focus();
  });

  return function show(state) {
    const { since, until } = span(state, now());
    for (const link of links) {
      const mine = link.dataset.range === state.range;
      setAttribute(link, "href", linkWith({ range: link.dataset.range, from: null, to: null }));
      setAttribute(link, "aria-current", mine ? "true" : null);
    }
    setAttribute(custom, "data-chosen", state.range === "custom" ? "yes" : null);
    if (!custom.open) {
      from.value = inputTime(since);
      to.value = inputTime(until);
    }
    setAttribute(live, "aria-pressed", state.live ? "true" : "false");
    setAttribute(
      live,
      "title",
      state.live ? "Values are fetched anew all the time" : "Values stay as they are",
    );
    stale.value = Object.keys(STALE).find((name) => STALE[name] === state.stale_s);
    setText(shown, state.range === "custom" ? `${moment(since)} – ${moment(until)}` : "");
  };
}
