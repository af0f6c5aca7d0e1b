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


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine; install the package chromium")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shown_grid(chromium: Any) -> Iterator[tuple[Grid, str]]:
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


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open an address and wait until it shows something; afterwards nothing may have gone wrong in it.

    expected : parts of console messages that belong to the test, such as a server that is switched off
    """
    contexts = []
    troubles: list[str] = []

    def open_(address: str, *, ready: bool = True, expected: tuple[str, ...] = (), **options: Any) -> Any:
        settings = {"viewport": DESKTOP, "timezone_id": "UTC", "locale": "en-GB", "reduced_motion": "reduce"}
        context = chromium.new_context(**settings | options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        home = "/".join(address.split("/")[:3])

        def heard(text: str) -> None:
            if not any(part in text for part in expected):
                troubles.append(text)

        page.on("console", lambda m: heard(f"{m.type}: {m.text}") if m.type != "log" else None)
        page.on("pageerror", lambda e: troubles.append(f"exception: {e}"))
        page.on(
            "request",
            lambda r: None if r.url.startswith((home, "blob:")) else troubles.append(f"asked {r.url}"),
        )
        page.goto(address)
        if ready:
            settled(page)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert troubles == []


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
