/* The server's time: from `now` in its responses, extrapolated by a monotonic clock. Ages are therefore right on a
   host with a wrong clock, and grow while the server is down. */

let offset = Date.now() / 1000 - performance.now() / 1000;
let learnt = false;

/** Return the server's seconds since the epoch, as far as known. */
export const now = () => performance.now() / 1000 + offset;

/** Return whether the server's time is known. */
export const isLearnt = () => learnt;

/** Set the server's time from a response. A response is never older than its request, so the later one counts. */
export function learn(serverNow) {
  if (typeof serverNow !== "number" || !Number.isFinite(serverNow)) return;
  const candidate = serverNow - performance.now() / 1000;
  // Responses have different delays; the smallest is the most exact. A step of the server's clock is followed.
  offset = learnt && Math.abs(candidate - offset) < 5 ? Math.max(candidate, offset) : candidate;
  learnt = true;
}
