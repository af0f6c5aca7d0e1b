"""When something is wrong: a token is wanted, the server goes away and comes back, refuses, or is degraded."""

import json
import re

import pytest

from nws.server.tokens import Role, Tokens
from nws.service.serviceconfig import ServiceConfig
from nws.service.weatherservice import WeatherService

from .conftest import leave, settled, wait_for_text
from .grids import Clock, Grid, serve, small_grid

READ = "read-token-0123456789"


@pytest.fixture
def own_grid():
    """A grid that a test may treat as it likes."""
    grid = small_grid(Clock())
    with grid.service:
        yield grid


def give(page, token):
    page.get_by_label("Token for reading").fill(token)
    page.get_by_role("button", name="Use this token").click()


def test_token_is_asked_for_kept_in_the_tab_and_forgotten_on_demand(open_page, own_grid):
    with serve(own_grid, Tokens.of({Role.READ: [READ]})) as server:
        page = open_page(f"{server.url}/?host=e1", ready=False, expected=("401",))
        page.locator("dialog[open]").wait_for()
        assert page.get_by_label("Token for reading").evaluate("n => n === document.activeElement")
        assert page.locator("tr, dd").count() == 0
        give(page, "wrong-token-0123456789")
        wait_for_text(page.locator("#token-why"), "refused")
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 1
        with page.expect_request(lambda r: r.headers.get("authorization") == f"Bearer {READ}"):
            give(page, READ)
        settled(page)
        assert page.locator("h1").inner_text() == "e1"
        assert page.locator("dialog[open]").count() == 0
        assert READ not in page.url
        page.reload()
        settled(page)
        assert page.evaluate("JSON.stringify(localStorage)").find(READ) == -1
        page.get_by_role("button", name="Forget token").click()
        page.locator("dialog[open]").wait_for()
        assert page.evaluate("sessionStorage.length") == 0
        assert page.locator("h1:has-text('e1') ~ dl dd").count() == 0
        leave(page)


def test_without_tokens_there_is_nothing_to_forget(open_page, url):
    page = open_page(url)
    assert page.get_by_role("button", name="Forget token").count() == 0


def test_page_survives_a_server_that_goes_away_and_comes_back(open_page, own_grid):
    gone = (
        "ERR_CONNECTION_REFUSED",
        "ERR_CONNECTION_RESET",
        "ERR_EMPTY_RESPONSE",
        "ERR_SOCKET_NOT_CONNECTED",
    )
    first = serve(own_grid)
    with first:
        page = open_page(first.url, expected=gone)
        port = int(first.url.rpartition(":")[2])
    page.get_by_role("button", name="Refresh now").click()
    banner = page.locator("#banner.away")
    banner.wait_for()
    told = banner.inner_text()
    assert "The server does not answer: no connection" in told
    assert "What you see is" in told
    assert "Next try in" in told
    assert page.locator("tr[data-host]").count() == 8
    with serve(own_grid, port=port):
        banner.get_by_role("button", name="Try again now").click()
        banner.wait_for(state="detached")
        assert page.locator("#banner").inner_text() == ""
        leave(page)


def test_it_tries_again_by_itself(open_page, own_grid):
    first = serve(own_grid)
    with first:
        page = open_page(first.url, expected=("net::ERR",))
        port = int(first.url.rpartition(":")[2])
    page.get_by_role("button", name="Refresh now").click()
    page.locator("#banner.away").wait_for()
    with serve(own_grid, port=port):
        page.locator("#banner.away").wait_for(state="detached")


def test_values_turn_stale_while_the_server_is_away(open_page, own_grid):
    with serve(own_grid) as server:
        page = open_page(f"{server.url}/?stale=1m", expected=("net::ERR",), fresh=True)
        page.clock.install()
        page.reload()
        settled(page)
        assert page.locator("tr[data-host=e1] .bar.cpu").get_attribute("data-stale") is None
    page.clock.run_for(70_000)
    page.wait_for_selector("tr[data-host=e1] .bar.cpu[data-stale]")
    wait_for_text(page.locator("tr[data-host=e1] .c-age"), "stale")


def refuse(page, pattern, status, message, *, problems=(), headers=None):
    body = json.dumps({"error": {"status": status, "message": message, "problems": list(problems)}})
    page.route(
        pattern,
        lambda route: route.fulfill(
            status=status, body=body, content_type="application/json", headers=headers or {}
        ),
    )


def test_refusal_without_problems_shows_no_null(open_page, url):
    page = open_page(url, expected=("404",))
    refuse(page, "**/v1/hosts", 404, "no series; query the list of series")
    page.get_by_role("button", name="Refresh now").click()
    page.locator("#banner.refused").wait_for()
    text = page.locator("#banner.refused").inner_text()
    assert "query the list of series" in text
    assert "null" not in text


def test_what_the_server_refuses_is_told_with_its_problems_and_can_be_tried_again(open_page, url):
    page = open_page(url, expected=("507",))
    refuse(page, "**/v1/hosts", 507, "the disk is <full>", problems=["/var: 0 bytes left", "free some"])
    page.get_by_role("button", name="Refresh now").click()
    banner = page.locator("#banner.refused")
    banner.wait_for()
    assert "The server refused (507): the disk is <full>" in banner.inner_text()
    assert banner.locator("li").all_inner_texts() == ["/var: 0 bytes left", "free some"]
    page.unroute("**/v1/hosts")
    banner.get_by_role("button", name="Try again now").click()
    banner.wait_for(state="detached")


def test_asked_to_slow_down_it_waits_as_long_as_it_is_told(open_page, url):
    page = open_page(url, expected=("429",))
    refuse(page, "**/v1/hosts", 429, "too many requests", headers={"Retry-After": "120"})
    page.get_by_role("button", name="Refresh now").click()
    page.locator("#banner.refused").wait_for()
    wait_for_text(page.locator("#banner"), "Next try in")
    assert re.search(r"Next try in (2 min|1\d\d s)\.", page.locator("#banner").inner_text())


def test_answer_that_is_not_json_is_named_as_such(open_page, url):
    page = open_page(url)
    page.route("**/v1/hosts", lambda route: route.fulfill(status=200, body="<html>proxy</html>"))
    page.get_by_role("button", name="Refresh now").click()
    wait_for_text(page.locator("#banner"), "is not JSON; is this the weather server?")


def test_plot_that_cannot_be_loaded_says_so_and_the_rest_stays(open_page, url):
    page = open_page(f"{url}/?host=e1", expected=("503",))
    refuse(page, "**/plot?*", 503, "the store is busy")
    page.get_by_role("group", name="Range").get_by_role("link", name="6 h").click()
    wait_for_text(page.locator("#banner"), "the store is busy")
    assert page.locator("main dl.facts dd").count() > 5


def test_degraded_server_says_why(open_page, url):
    page = open_page(url, ready=False)
    body = json.dumps({"status": "degraded", "store": "weather.db", "reason": "the disk is full."})
    page.route(
        "**/healthz", lambda route: route.fulfill(status=200, body=body, content_type="application/json")
    )
    page.reload()
    wait_for_text(
        page.locator("#banner.degraded"),
        "The server is degraded: the disk is full. What is kept can be read.",
    )


def test_empty_service_says_how_to_start(open_page):
    clock = Clock()
    service = WeatherService(ServiceConfig(grid="new"), clock=clock, in_memory=True)
    with service, serve(Grid(service=service, clock=clock, sites={})) as server:
        page = open_page(server.url)
        assert "No host has registered yet" in page.locator(".note").first.inner_text()
        page.get_by_role("link", name="Links").click()
        settled(page)
        assert page.locator("h1").inner_text() == "Links"
        leave(page)


def test_plot_that_loads_again_ends_the_complaint(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1", ready=False, expected=("503",))
    refuse(page, "**/plot?*", 503, "the store is busy")
    page.reload()
    wait_for_text(page.locator("#banner"), "the store is busy")
    assert page.locator(".readout").inner_text() == "Not loaded: the store is busy"
    page.unroute("**/plot?*")
    page.locator("#banner.refused").wait_for(state="detached")
    wait_for_text(page.locator(".sentence"), "1 gap.")
