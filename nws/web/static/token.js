/* The user's token: requested on demand, stored for this tab only, sent to this server only. */

import { el } from "./dom.js";

const KEY = "nws-token";
let held = "";
try {
  held = window.sessionStorage.getItem(KEY) ?? "";
} catch {
  // storage is disabled: the token lives as long as the page
}

export const token = () => held;

function keep(value) {
  held = value;
  try {
    if (value) window.sessionStorage.setItem(KEY, value);
    else window.sessionStorage.removeItem(KEY);
  } catch {
    // see above
  }
  document.getElementById("forget").hidden = !held;
}

let asking = null;

/** Prompt for a token; resolves when one was entered. Concurrent callers share one prompt. */
export function ask(message) {
  asking ??= new Promise((resolve) => show(message, resolve)).finally(() => (asking = null));
  return asking;
}

function show(message, resolve) {
  const dialog = document.getElementById("token");
  const input = el("input", {
    id: "token-value",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "token-why",
  });
  const form = el(
    "form",
    null,
    el("h2", { id: "token-title" }, "This server asks for a token"),
    el("p", { id: "token-why" }, message),
    el("label", { for: "token-value" }, "Token for reading"),
    input,
    el("p", { class: "hint" }, "It stays in this tab and is sent to this server only."),
    el("button", { type: "submit", class: "main" }, "Use this token"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keep(input.value.trim());
    dialog.replaceChildren();
    dialog.close();
    resolve();
  });
  // Escape would leave an empty page without another prompt
  dialog.oncancel = (event) => event.preventDefault();
  dialog.onclose = () => {
    if (dialog.childElementCount) dialog.showModal();
  };
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
  input.focus();
}

/** Forget the token and reload, so that no data read with it stays visible. */
export function setUp() {
  const button = document.getElementById("forget");
  button.hidden = !held;
  button.addEventListener("click", () => {
    keep("");
    window.location.reload();
  });
}
