/* The page: it selects the view for the address, schedules updates, and handles their failures. */

import { address, followLinks, linkTo, onChange } from "./address.js";
import { tick } from "./ages.js";
import * as api from "./api.js";
import { banner } from "./banner.js";
import { isLearnt, now } from "./clock.js";
import { el, reconcile, setAttribute, setText } from "./dom.js";
import { redrawAll } from "./plot/figure.js";
import { timeBar } from "./timebar.js";
import { setUp as setUpToken } from "./token.js";
import { eventsView } from "./views/events.js";
import { hostView } from "./views/host.js";
import { matrixView } from "./views/matrix.js";
import { seriesView } from "./views/series.js";
import { sitesView } from "./views/sites.js";

const HEALTH_EVERY_MS = 30000;
const RETRY_S = [2, 4, 8, 15, 30];

const main = document.getElementById("content");
const grid = { name: "Weather", sites: new Map() };
const page = {
  view: null,
  key: "",
  controller: null,
  timer: 0,
  failures: 0,
  failed: false,
  plotFailed: false,
  healthDue: 0,
};
const notice = banner({
  root: document.getElementById("banner"),
  freshness: document.getElementById("freshness"),
  retry: () => refresh(),
});
const showTimes = timeBar(document.getElementById("times"), { refresh: () => refresh() });

const keyOf = (state) => [state.place, state.site, state.host, state.series].join("\n");

function makeView(state) {
  const site = (name) => grid.sites.get(name) ?? null;
  if (state.place === "series") return seriesView({ name: state.series, site, onPlot: plotLoaded });
  if (state.place === "host")
    return hostView({ name: state.host, site: () => site(state.host), onPlot: plotLoaded });
  if (state.place === "matrix") return matrixView();
  if (state.place === "events") return eventsView();
  return sitesView({ site: state.site, gridName: () => grid.name });
}

function showLinks(id, links) {
  reconcile(
    document.getElementById(id),
    links.map((link, i) => ({ ...link, i })),
    {
      key: (link) => `${link.i} ${link.text}`,
      make: (link) => el("li", null, el("a", null, link.text)),
      update(item, link) {
        setAttribute(item.firstChild, "href", link.href);
        setAttribute(item.firstChild, "aria-current", link.current);
      },
    },
  );
}

function showPlace(state) {
  const crumbs = [{ text: grid.name, href: linkTo({}) }, ...page.view.crumbs()];
  showLinks(
    "crumbs",
    crumbs.map((crumb, i) => ({ ...crumb, current: i === crumbs.length - 1 ? "page" : null })),
  );
  const current = { matrix: "Links", events: "Events" }[state.place] ?? "Hosts";
  const places = [
    ["Hosts", linkTo({})],
    ["Links", linkTo({ view: "matrix" })],
    ["Events", linkTo({ view: "events" })],
  ];
  showLinks(
    "places",
    places.map(([text, href]) => ({ text, href, current: text === current ? "true" : null })),
  );
  document.title = [page.view.title, grid.name].filter(Boolean).join(" – ");
}

function arrive(state) {
  const key = keyOf(state);
  const moved = key !== page.key;
  if (moved) {
    const first = page.view === null;
    page.view?.close?.();
    page.key = key;
    page.plotFailed = false;
    page.view = makeView(state);
    main.replaceChildren(page.view.element);
    setAttribute(main, "data-ready", null);
    if (!first) {
      main.querySelector("h1").focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  } else {
    page.view.changed?.();
  }
  showTimes(state);
  showPlace(state);
  refresh();
}

function schedule(wait_s) {
  clearTimeout(page.timer);
  page.timer = setTimeout(() => {
    // the page is hidden: becoming visible, not the timer, triggers the next update
    if (!document.hidden) refresh();
  }, 1000 * wait_s);
}

function fail(error) {
  const wait = error.retry_s ?? RETRY_S[Math.min(page.failures, RETRY_S.length - 1)];
  // many plots may fail at once; treat that as one failure
  if (page.failed) return;
  page.failed = true;
  page.failures += 1;
  notice.failed(error, wait);
  schedule(wait);
}

function succeed() {
  page.failures = 0;
  notice.well(now());
}

/* Plots load independently after their view, so only a plot can report that plots work again. */
function plotLoaded(error) {
  if (error) {
    page.plotFailed = true;
    fail(error);
  } else if (page.plotFailed) {
    page.plotFailed = false;
    succeed();
  }
}

async function refresh() {
  page.controller?.abort();
  const controller = new AbortController();
  page.controller = controller;
  page.failed = false;
  clearTimeout(page.timer);
  const { view } = page;
  try {
    // the server's time defines "the last hour", so views wait for it
    if (!isLearnt()) await learnGrid(controller.signal);
    await Promise.all([view.load(controller.signal), learnGrid(controller.signal)]);
  } catch (error) {
    if (controller.signal.aborted) return;
    fail(error);
    return;
  }
  if (controller.signal.aborted) return;
  if (!page.plotFailed) succeed();
  setAttribute(main, "data-ready", "yes");
  showTimes(address());
  showPlace(address());
  tick();
  checkHealth();
  if (address().live && !page.failed) schedule(view.every_s());
}

/* The grid's name and each host's site, for the breadcrumbs; refreshed after a minute. */
async function learnGrid(signal) {
  if (performance.now() < (grid.due ?? 0)) return;
  const { hosts } = await api.hosts(signal);
  grid.sites = new Map(hosts.map((host) => [host.name, host.site ?? ""]));
  const one = await api.snapshot({ hosts: hosts[0]?.name }, signal);
  grid.name = one.grid || "Weather";
  grid.due = performance.now() + 60000;
  page.view.changed?.();
}

async function checkHealth() {
  if (performance.now() < page.healthDue) return;
  page.healthDue = performance.now() + HEALTH_EVERY_MS;
  notice.degraded(await api.trouble());
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const show = () => {
    setText(button, { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[window.nwsTheme.choice()]);
    setAttribute(button, "aria-label", `Colours: ${window.nwsTheme.choice()}. Change`);
  };
  button.addEventListener("click", () => {
    window.nwsTheme.next();
    show();
  });
  document.addEventListener("themechange", redrawAll);
  show();
}

setUpTheme();
setUpToken();
followLinks(document);
onChange(arrive);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && (address().live || page.failures)) refresh();
});
setInterval(() => {
  tick();
  notice.tick();
}, 1000);
arrive(address());
