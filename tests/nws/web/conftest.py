"""A real browser against a real server; every page must be silent, stay at home and throw nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .grids import Clock, Grid, serve, small_grid

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
SETTINGS: dict[str, Any] = {
    "viewport": DESKTOP,
    "timezone_id": "UTC",
    "locale": "en-GB",
    "color_scheme": "light",
    "reduced_motion": "reduce",
}
#: How long a page may take to show something on a busy machine.
PATIENCE_MS = 30_000


@pytest.fixture(scope="session")
def playwright() -> Any:
    """The library that drives a browser, where both are installed."""
    found = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine; install the package chromium")
    found.expect.set_options(timeout=PATIENCE_MS)
    return found


@pytest.fixture(scope="module")
def chromium(playwright: Any) -> Iterator[Any]:
    # Not for the whole session: playwright keeps an event loop running, and other tests may want one of their own.
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shown_grid(playwright: Any) -> Iterator[tuple[Grid, str]]:
    """The small grid and the address of its server; no test changes it."""
    grid = small_grid(Clock())
    with grid.service, serve(grid) as server:
        yield grid, server.url


@pytest.fixture
def grid(shown_grid: tuple[Grid, str]) -> Grid:
    return shown_grid[0]


@pytest.fixture
def url(shown_grid: tuple[Grid, str]) -> str:
    return shown_grid[1]


class Watch:
    """What went wrong in a page: console messages, exceptions, requests that leave its own server."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.expected: tuple[str, ...] = ()
        self.home = ""

    def attach(self, page: Any) -> None:
        """Listen to a page for as long as it lives."""
        page.on("console", lambda m: self._heard(f"{m.type}: {m.text}") if m.type != "log" else None)
        page.on("pageerror", lambda e: self.troubles.append(f"exception: {e}"))
        page.on("request", lambda r: self._asked(r.url))

    def _heard(self, text: str) -> None:
        if not any(part in text for part in self.expected):
            self.troubles.append(text)

    def _asked(self, address: str) -> None:
        if not address.startswith((self.home, "blob:", "about:")):
            self.troubles.append(f"asked {address}")


@pytest.fixture(scope="module")
def shared_tab(chromium: Any) -> Iterator[tuple[Any, Watch]]:
    """One tab for all tests that need no other settings: a new one costs as much as what is shown in it."""
    context = chromium.new_context(**SETTINGS)
    context.set_default_timeout(PATIENCE_MS)
    page, watch = context.new_page(), Watch()
    watch.attach(page)
    yield page, watch
    context.close()


@pytest.fixture
def open_page(chromium: Any, shared_tab: tuple[Any, Watch]) -> Iterator[Callable[..., Any]]:
    """Open an address and wait until it shows something; afterwards nothing may have gone wrong in it.

    expected : parts of console messages that belong to the test, such as a server that is switched off
    fresh : in a tab of its own, as with any further option, or when the shared one is in use already
    """
    shared, watch = shared_tab
    tabs: list[tuple[Any, Watch]] = []

    def open_(
        address: str,
        *,
        ready: bool = True,
        expected: tuple[str, ...] = (),
        fresh: bool = False,
        **options: Any,
    ) -> Any:
        if fresh or options or tabs:
            context = chromium.new_context(**SETTINGS | options)
            context.set_default_timeout(PATIENCE_MS)
            page, watching = context.new_page(), Watch()
            watching.attach(page)
        else:
            page, watching = shared, watch
        tabs.append((page, watching))
        watching.expected, watching.home = expected, "/".join(address.split("/")[:3])
        page.goto(address)
        if ready:
            settled(page)
        return page

    yield open_
    troubles = []
    for page, watching in tabs:
        if page is shared:
            _tidy(page)
        else:
            page.context.close()
        troubles += watching.troubles
        watching.troubles = []
    assert troubles == []


def _tidy(page: Any) -> None:
    """Leave the shared tab as it was found."""
    page.unroute_all()
    if not page.url.startswith("about:"):
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.goto("about:blank")
    page.set_viewport_size(DESKTOP)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")


def settled(page: Any) -> None:
    """Wait until the view has been read."""
    page.wait_for_selector("main[data-ready]")


def wait_for_count(locator: Any, count: int) -> None:
    """Wait until there are so many of something. (A condition in JavaScript would be refused by the page's policy.)"""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count)


def wait_for_text(locator: Any, text: str) -> None:
    """Wait until something contains a text."""
    from playwright.sync_api import expect

    expect(locator).to_contain_text(text)


def leave(page: Any) -> None:
    """Stop a page before its server ends."""
    page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.goto("about:blank")
