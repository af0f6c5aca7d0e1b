/* Time as the server counts it: learnt from the `now` of its answers, carried on by a clock that nobody can step.
   Ages therefore are right on a host whose own clock is wrong, and grow while the server is away. */

let offset = Date.now() / 1000 - performance.now() / 1000;
let learnt = false;

/** Seconds since the epoch on the server, as far as is known. */
export const now = () => performance.now() / 1000 + offset;

/** Whether the server has told its time yet. */
export const isLearnt = () => learnt;

/** Take the server's time from one of its answers. An answer is never older than its request, so later wins. */
export function learn(serverNow) {
  if (typeof serverNow !== "number" || !Number.isFinite(serverNow)) return;
  const candidate = serverNow - performance.now() / 1000;
  // Answers are late by different amounts; the earliest seen is nearest. A step of the server's clock is followed.
  offset = learnt && Math.abs(candidate - offset) < 5 ? Math.max(candidate, offset) : candidate;
  learnt = true;
}
