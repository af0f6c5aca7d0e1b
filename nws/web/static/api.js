/* Requests to the server: one function, one error for "did not answer" and one for "refused". It sends a token if
   there is one, and prompts for it on demand. Independent of the views. */

import * as clock from "./clock.js";
import { ask, token } from "./token.js";

const TIMEOUT_MS = 15000;
const AT_ONCE = 6;

/** The server did not answer: down, unreachable or too slow. */
export class Unreachable extends Error {}

/** The server refused. `status`: of HTTP; `problems`: its list; `retry_s`: seconds to wait. */
export class Refused extends Error {
  constructor(status, message, problems, retry_s) {
    super(message);
    this.status = status;
    this.problems = problems;
    this.retry_s = retry_s;
  }
}

let running = 0;
const waiting = [];

async function turn(signal) {
  if (running >= AT_ONCE) await new Promise((resolve) => waiting.push(resolve));
  running += 1;
  if (signal?.aborted) {
    leave();
    signal.throwIfAborted();
  }
}

function leave() {
  running -= 1;
  waiting.shift()?.();
}

function urlOf(path, parameters) {
  const url = new URL(path, document.baseURI);
  url.search = "";
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) url.searchParams.append(name, one);
    }
  }
  return url;
}

async function once(url, signal) {
  const late = AbortSignal.timeout(TIMEOUT_MS);
  const headers = { Accept: "application/json" };
  const sent = token();
  if (sent) headers.Authorization = `Bearer ${sent}`;
  let response;
  let text;
  try {
    response = await fetch(url, {
      headers,
      cache: "no-store",
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, late]) : late,
    });
    text = await response.text();
  } catch (error) {
    signal?.throwIfAborted();
    if (late.aborted) throw new Unreachable(`no answer within ${TIMEOUT_MS / 1000} s`);
    throw new Unreachable(`no connection (${error.message})`);
  }
  return { response, text, sent };
}

function document_(text, status) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused(
      status,
      `The answer (status ${status}) is not JSON; is this the weather server?`,
      [],
      null,
    );
  }
}

/** Return the JSON of a GET; throws `Unreachable`, `Refused`, or the signal's own reason. */
export async function get(path, parameters, signal) {
  const url = urlOf(path, parameters);
  for (;;) {
    await turn(signal);
    let answer;
    try {
      answer = await once(url, signal);
    } finally {
      leave();
    }
    const { response, text, sent } = answer;
    if (response.status === 401) {
      // another request may have prompted already: first try the new token
      if (sent === token())
        await ask(
          sent ? "The token was refused. It may have been changed." : "Who runs the server can give you one.",
        );
      continue;
    }
    const body = document_(text, response.status);
    if (response.ok) {
      clock.learn(body.now);
      return body;
    }
    const told = body.error ?? {};
    const problems = Array.isArray(told.problems) ? told.problems.map(String) : [];
    const retry = Number.parseFloat(response.headers.get("Retry-After"));
    throw new Refused(
      response.status,
      String(told.message ?? `status ${response.status}`),
      problems,
      Number.isFinite(retry) ? retry : null,
    );
  }
}

const seriesPath = (name, what) => `v1/series/${encodeURIComponent(name)}/${what}`;

export const hosts = (signal) => get("v1/hosts", null, signal);
export const host = (name, signal) => get(`v1/hosts/${encodeURIComponent(name)}`, null, signal);
export const seriesList = (filter, signal) => get("v1/series", filter, signal);
export const forecasts = (names, over, signal) => get("v1/forecasts", { series: names, over }, signal);
export const plot = (name, span, signal) => get(seriesPath(name, "plot"), span, signal);
export const samples = (name, span, signal) => get(seriesPath(name, "samples"), span, signal);
export const snapshot = (parameters, signal) => get("v1/snapshot", parameters, signal);
export const events = (span, signal) => get("v1/events", span, signal);

/** Return the reason for a degraded server, "" if there is none. Needs no token and never throws. */
export async function trouble() {
  try {
    const { response, text } = await once(urlOf("healthz"));
    const { status, reason } = JSON.parse(text);
    return response.ok && status === "ok" ? "" : String(reason ?? status);
  } catch {
    return "";
  }
}
