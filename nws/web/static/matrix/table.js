/* The matrix as a grid of cells: one Tab stop, arrow keys between cells, a full name of every cell for screen
   readers. It reports the focused and the selected cell; their meaning is defined elsewhere. */

import { el, setAttribute, setText } from "../dom.js";

const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-8, 0],
  PageDown: [8, 0],
};

/**
 * Return the matrix in `root`. `cellOf(row, column)` returns `{text, name, step, verdict, at, lost, composed,
 * none, self}`; `onLook(row, column)` is called on focus or hover, `onChoose(row, column)` on Enter or click.
 */
export function matrixTable(root, { onLook, onChoose }) {
  let rows = [];
  let columns = [];
  let cells = [];
  let focus = [0, 0];
  const body = el("tbody");
  const head = el("thead");
  const table = el(
    "table",
    { class: "matrix", role: "grid", "aria-label": "Links from row to column" },
    head,
    body,
  );
  root.replaceChildren(table);

  function place(node) {
    const cell = node.closest?.("td");
    return cell ? [cell.parentNode.nwsRow, cell.nwsColumn] : null;
  }

  function moveTo(r, c, take = true) {
    setAttribute(cells[focus[0]]?.[focus[1]] ?? el("td"), "tabindex", "-1");
    focus = [Math.min(Math.max(r, 0), rows.length - 1), Math.min(Math.max(c, 0), columns.length - 1)];
    const cell = cells[focus[0]]?.[focus[1]];
    if (!cell) return;
    setAttribute(cell, "tabindex", "0");
    if (take) cell.focus();
  }

  table.addEventListener("keydown", (event) => {
    const [r, c] = focus;
    const move = MOVES[event.key];
    if (move) moveTo(r + move[0], c + move[1]);
    else if (event.key === "Home") moveTo(event.ctrlKey ? 0 : r, 0);
    else if (event.key === "End") moveTo(event.ctrlKey ? rows.length - 1 : r, columns.length - 1);
    else if (event.key === "Enter" || event.key === " ") onChoose(rows[r], columns[c]);
    else return;
    event.preventDefault();
  });
  table.addEventListener("focusin", (event) => {
    const at = place(event.target);
    if (!at) return;
    moveTo(...at, false);
    onLook(rows[at[0]], columns[at[1]]);
  });
  table.addEventListener("mouseover", (event) => {
    const at = place(event.target);
    if (at) onLook(rows[at[0]], columns[at[1]]);
  });
  table.addEventListener("click", (event) => {
    const at = place(event.target);
    if (at) onChoose(rows[at[0]], columns[at[1]]);
  });

  function build() {
    head.replaceChildren(
      el(
        "tr",
        null,
        el("td", { class: "corner" }, "from ↓ to →"),
        columns.map((name) => el("th", { scope: "col", title: name }, el("span", null, name))),
      ),
    );
    cells = rows.map((row) =>
      columns.map((column, c) =>
        Object.assign(el("td", { role: "gridcell", tabindex: "-1" }), { nwsColumn: c }),
      ),
    );
    body.replaceChildren(
      ...rows.map((row, r) =>
        Object.assign(el("tr", null, el("th", { scope: "row", title: row }, row), cells[r]), { nwsRow: r }),
      ),
    );
    focus = [0, 0];
    moveTo(0, 0, false);
  }

  return {
    show({ rows: nextRows, columns: nextColumns, cellOf, edges }, { chosen, numbers }) {
      if (nextRows.join("\n") !== rows.join("\n") || nextColumns.join("\n") !== columns.join("\n")) {
        rows = nextRows;
        columns = nextColumns;
        build();
      }
      rows.forEach((row, r) => setAttribute(body.children[r], "data-edge", edges.has(row) ? "yes" : null));
      setAttribute(table, "data-numbers", numbers ? "yes" : null);
      rows.forEach((row, r) =>
        columns.forEach((column, c) =>
          paint(cells[r][c], cellOf(row, column), chosen === `${row}>${column}`, edges.has(column)),
        ),
      );
    },
  };
}

function paint(cell, shown, chosen, edge) {
  setText(cell, shown.text);
  setAttribute(cell, "aria-label", shown.name);
  setAttribute(cell, "data-step", shown.step);
  setAttribute(cell, "data-verdict", shown.verdict);
  setAttribute(cell, "data-composed", shown.composed ? "yes" : null);
  setAttribute(cell, "data-self", shown.self ? "yes" : null);
  setAttribute(cell, "data-none", shown.none ? "yes" : null);
  setAttribute(cell, "data-at", shown.none ? null : shown.at);
  setAttribute(cell, "data-lost", shown.lost ? "yes" : null);
  setAttribute(cell, "data-stale", shown.stale ? "yes" : null);
  setAttribute(cell, "data-edge", edge ? "yes" : null);
  setAttribute(cell, "aria-selected", chosen ? "true" : "false");
}
