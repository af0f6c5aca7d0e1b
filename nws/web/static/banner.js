/* The connection state in one place: down, refused, degraded, with the age of the shown data and a retry button.
   Ticking text is hidden from screen readers, which read each message once. */

import { Refused, Unreachable } from "./api.js";
import { el, setText } from "./dom.js";
import { clockTime, duration } from "./units.js";

const mono = () => performance.now() / 1000;

/** The banner: `failed(error, retryAt)`, `well(asOf)`, `degraded(reason)`, `tick()`. */
export function banner({ root, freshness, retry }) {
  let shownAt = null; // own monotonic time of the last good answer, s
  let asOf = null; // the server's time then
  let next = null;
  let reason = "";
  const again = el("button", { type: "button", on: { click: retry } }, "Try again now");
  const ticking = el("span", { "aria-live": "off" });

  function tick() {
    if (shownAt === null) {
      setText(freshness, "");
    } else {
      setText(
        freshness,
        `Shown as of ${clockTime(asOf)} by the server's clock, ${duration(mono() - shownAt)} ago.`,
      );
    }
    if (next !== null) {
      const old =
        shownAt === null
          ? "Nothing has been read yet."
          : `What you see is ${duration(mono() - shownAt)} old.`;
      const wait = Number.isFinite(next) ? ` Next try in ${duration(Math.max(next - mono(), 0))}.` : "";
      setText(ticking, ` ${old}${wait} `);
    }
  }

  function tell(kind, ...parts) {
    root.className = kind;
    // replaceChildren shows null as a word
    root.replaceChildren(...parts.filter((part) => part !== null));
  }

  return {
    tick,
    failed(error, wait_s) {
      const first = next === null;
      next = mono() + wait_s;
      if (error instanceof Unreachable) {
        if (first || root.className !== "away")
          tell(
            "away",
            el("strong", null, "The server does not answer"),
            `: ${error.message}.`,
            ticking,
            again,
          );
      } else if (error instanceof Refused) {
        tell(
          "refused",
          el("strong", null, `The server refused (${error.status})`),
          `: ${error.message}`,
          error.problems.length
            ? el(
                "ul",
                null,
                error.problems.map((p) => el("li", null, p)),
              )
            : null,
          ticking,
          again,
        );
      } else {
        tell(
          "refused",
          el("strong", null, "The page could not show the answer"),
          `: ${error.message}`,
          ticking,
          again,
        );
      }
      tick();
    },
    well(time) {
      const wasBad = next !== null;
      shownAt = mono();
      asOf = time;
      next = null;
      if (wasBad || (root.className === "degraded") !== (reason !== "")) this.degraded(reason);
      tick();
    },
    degraded(why) {
      reason = why;
      if (next !== null) return;
      if (!why) tell("", "");
      else
        tell("degraded", el("strong", null, "The server is degraded"), `: ${why} What is kept can be read.`);
    },
  };
}
