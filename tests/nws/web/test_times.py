"""One time selector for everything, in the address."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from .conftest import settled, wait_for_text
from .grids import NOON


def span(page):
    """From and to of a custom time, seconds since the epoch."""
    query = parse_qs(urlsplit(page.url).query)
    return float(query["from"][0]), float(query["to"][0])


def steps(page, name):
    page.get_by_role("group", name="Move the range").get_by_role("button", name=name).click()
    page.wait_for_url("**from=*")


def test_range_ends_now_by_the_servers_clock(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1&live=0")
    for text, hours in (("6 h", 6), ("24 h", 24), ("7 d", 168), ("30 d", 720)):
        page.wait_for_load_state("networkidle")
        with page.expect_request(lambda r: "/plot?" in r.url) as asking:
            page.get_by_role("group", name="Range").get_by_role("link", name=text).click()
        query = parse_qs(urlsplit(asking.value.url).query)
        since, until = float(query["since"][0]), float(query["until"][0])
        assert until - since == pytest.approx(3600 * hours, abs=0.01)
        assert abs(until - NOON) < 600
        assert page.locator("#times [aria-current]").inner_text() == text


def test_from_and_to_are_chosen_in_local_time(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1", timezone_id="America/New_York")
    page.locator(".custom summary").click()
    page.locator("#from").fill("2026-11-20T06:10:00")
    page.locator("#to").fill("2026-11-20T06:40:00")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**from=*")
    assert span(page) == (NOON - 3000, NOON - 1200)
    settled(page)
    wait_for_text(page.locator(".sentence"), "at 2026-11-20 06:39:5")
    assert page.locator(".times .span").inner_text() == "2026-11-20 06:10:00 – 2026-11-20 06:40:00"


def test_from_after_to_is_told_where_it_is_typed(open_page, url):
    page = open_page(url)
    page.locator(".custom summary").click()
    page.locator("#from").fill("2026-11-20T11:00:00")
    page.locator("#to").fill("2026-11-20T10:00:00")
    page.get_by_role("button", name="Show").click()
    assert page.locator(".custom .problem").inner_text() == "“From” must be before “To”."
    assert "from" not in page.url
    page.keyboard.press("Escape")
    assert page.locator(".custom").get_attribute("open") is None


def test_earlier_later_and_wider_move_the_time(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1&from={NOON - 3600:.0f}&to={NOON - 1800:.0f}")
    steps(page, "Earlier")
    page.wait_for_url(f"**from={NOON - 4500:.0f}*")
    steps(page, "Later")
    page.wait_for_url(f"**from={NOON - 3600:.0f}*")
    steps(page, "Wider")
    page.wait_for_url(f"**from={NOON - 4500:.0f}*")
    assert span(page) == (NOON - 4500, NOON - 900)
    page.go_back()
    assert span(page) == (NOON - 3600, NOON - 1800)


def test_time_chosen_holds_for_events_plots_and_small_lines(open_page, url):
    page = open_page(f"{url}/?view=events&from={NOON - 3100:.0f}&to={NOON - 2900:.0f}")
    assert page.locator("ol.events .kind").all_inner_texts() == ["plan made"]
    page.locator("#crumbs a").first.click()
    settled(page)
    assert page.locator("ol.events .kind").all_inner_texts() == ["plan made"]
    assert "of the time chosen" in page.locator(".note").first.inner_text()


def test_live_reads_again_and_again_until_it_is_switched_off(open_page, url):
    page = open_page(url, fresh=True)
    page.clock.install()
    page.reload()
    settled(page)
    asked = []
    page.on("request", lambda r: asked.append(r.url) if r.url.endswith("/v1/hosts") else None)
    with page.expect_request("**/v1/hosts"):
        page.clock.run_for(11_000)
    page.get_by_role("button", name="Live").click()
    assert "live=0" in page.url
    settled(page)
    page.wait_for_load_state("networkidle")
    asked.clear()
    page.clock.run_for(60_000)
    page.wait_for_load_state("networkidle")
    assert asked == []
    with page.expect_request("**/v1/hosts"):
        page.get_by_role("button", name="Refresh now").click()


def test_page_says_as_of_when_it_shows_things(open_page, url):
    page = open_page(f"{url}/?live=0")
    told = page.locator("#freshness").inner_text()
    assert re.fullmatch(r"Shown as of 12:00:\d\d by the server's clock, \d+ s ago\.", told)
