/* Controls above the matrix: measure, threshold, grouping, and the groups of rows and columns. */

import { go, linkWith } from "../address.js";
import { el, setAttribute } from "../dom.js";
import { MEASURES } from "./measures.js";

/** Return the controls; `onLimit(text)` receives a typed threshold. */
export function controls(onLimit) {
  const tabs = Object.entries(MEASURES).map(([name, m]) => el("a", { data: { measure: name } }, m.name));
  const by = ["site", "clique"].map((name) => el("a", { data: { by: name } }, `by ${name}`));
  const rows = el("select", { id: "rows" });
  const cols = el("select", { id: "cols" });
  const limit = el("input", { id: "limit", type: "text", autocomplete: "off", size: "12" });
  const problem = el("span", { class: "problem", role: "alert" });
  const form = el(
    "form",
    { class: "limit" },
    el("label", { for: "limit" }, "Threshold"),
    limit,
    el("button", { type: "submit" }, "Colour"),
    problem,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onLimit(limit.value.trim());
  });
  for (const select of [rows, cols]) {
    select.addEventListener("change", () => go(linkWith({ [select.id]: select.value, pair: null })));
  }
  const node = el(
    "div",
    { class: "controls" },
    el("div", { class: "ranges measures", role: "group", "aria-label": "What the cells show" }, tabs),
    form,
    el("div", { class: "ranges", role: "group", "aria-label": "Groups" }, by),
    el("span", { class: "pick" }, el("label", { for: "rows" }, "From"), rows),
    el("span", { class: "pick" }, el("label", { for: "cols" }, "To"), cols),
  );
  return { node, tabs, by, rows, cols, limit, problem };
}

/** Update the controls. `mayAll`: all hosts fit into one matrix. */
export function showControls(parts, state, { groups, row, column, mayAll }) {
  for (const tab of parts.tabs) {
    const { measure } = tab.dataset;
    setAttribute(tab, "href", linkWith({ measure, limit: null, limits: null }));
    setAttribute(tab, "aria-current", measure === state.measure ? "true" : null);
  }
  for (const link of parts.by) {
    const by = link.dataset.by === "site" ? null : link.dataset.by;
    setAttribute(link, "href", linkWith({ by, rows: null, cols: null, pair: null }));
    setAttribute(link, "aria-current", link.dataset.by === state.by ? "true" : null);
  }
  options(parts.rows, groups, row, mayAll);
  options(parts.cols, groups, column, mayAll);
  if (document.activeElement !== parts.limit) parts.limit.value = state.limit;
  parts.limit.placeholder = MEASURES[state.measure].example;
}

function options(select, groups, chosen, mayAll) {
  const names = ["", ...groups.map((group) => group.name)];
  const first = mayAll ? "all hosts" : "all groups";
  if (select.nwsNames !== names.join("\n") + first) {
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name || first)));
    select.nwsNames = names.join("\n") + first;
  }
  select.value = names.includes(chosen) ? chosen : "";
}
