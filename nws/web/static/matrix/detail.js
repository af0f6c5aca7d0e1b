/* The focused or selected link as text: both measures with errors, age, reverse link, composition, its series, and
   its own threshold. */

import { linkTo } from "../address.js";
import { ageNode, setMeasuredAt } from "../ages.js";
import { el } from "../dom.js";
import { withError } from "../units.js";
import { asymmetry, keyOf } from "./links.js";
import { MEASURES } from "./measures.js";

const factor = (v) => (v === null ? "unknown" : MEASURES.asymmetry.text(v));

function legs(link) {
  const stops = [link.from, ...link.through, link.to];
  return stops
    .slice(1)
    .map((stop, i) =>
      el("a", { href: linkTo({ series: `network.latency@${stops[i]}>${stop}` }) }, `${stops[i]} → ${stop}`),
    );
}

function joined(nodes) {
  return nodes.flatMap((node, i) => (i ? [", ", node] : [node]));
}

/** Return one sentence about a link, without markup: for the cell's name and the line above the matrix. */
export function describe(link, from, to, measure, value) {
  if (!link) return `${from} to ${to}: no data`;
  const how = link.through ? `composed via ${link.through.join(", ")}` : "measured";
  return `${from} to ${to}: ${measure.name.toLowerCase()} ${value === null ? "unknown" : measure.text(value)}, ${how}`;
}

function sourceOf(link) {
  if (link.through) {
    return el(
      "p",
      { class: "explain" },
      `No clique measures this pair. Estimated along the path via ${link.through.join(", ")}: latencies are added, of bandwidths the lowest counts. Parts: `,
      ...joined(legs(link)),
      ".",
    );
  }
  const pages = [
    ["network.latency", "Latency over time"],
    ["network.bandwidth", "Bandwidth over time"],
  ];
  return el(
    "p",
    null,
    ...joined(
      pages.map(([r, name]) => el("a", { href: linkTo({ series: `${r}@${link.from}>${link.to}` }) }, name)),
    ),
    ".",
  );
}

/** Return nodes with all data of a selected link. `ownLimit`: text of its threshold; `onLimit(text)` sets it. */
export function detail(link, links, { from, to, lost, measure, ownLimit, onLimit }) {
  const heading = el("h2", null, `${from} → ${to}`);
  if (!link)
    return [
      heading,
      el(
        "p",
        { class: "note" },
        "Neither measured nor composed: no path of measured links joins these hosts.",
      ),
    ];
  const age = ageNode();
  setMeasuredAt(age, link.measured_at, lost);
  const back = links.get(keyOf(to, from));
  const worse = asymmetry(links, link);
  const facts = [
    ["Latency", withError(link.latency_s, link.latency_error_s, "s")],
    ["Bandwidth", withError(link.bandwidth_Bps, link.bandwidth_error_Bps, "B/s")],
    [link.through ? "Oldest part" : "Measured", age],
    [
      "Way back",
      back
        ? `${MEASURES.latency.text(back.latency_s)}, ${MEASURES.bandwidth.text(back.bandwidth_Bps)}`
        : "no data",
    ],
    [
      "Worse than the way back",
      from === to ? "same way" : `latency ${factor(worse.latency)}, bandwidth ${factor(worse.bandwidth)}`,
    ],
  ];
  const input = el("input", {
    id: "own-limit",
    type: "text",
    value: ownLimit,
    placeholder: `for example ${measure.example}`,
    autocomplete: "off",
  });
  const form = el(
    "form",
    { class: "own" },
    el("label", { for: "own-limit" }, `${measure.name} threshold of this link alone`),
    input,
    el("button", { type: "submit" }, "Set"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onLimit(input.value.trim(), input);
  });
  return [
    heading,
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))),
    ),
    sourceOf(link),
    form,
  ];
}
