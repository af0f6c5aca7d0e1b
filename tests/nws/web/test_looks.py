"""Light and dark, a phone, the keyboard, names for everything, contrast: figures computed on the page itself."""

import pytest

from tests.transcripts import text_of

from .conftest import PHONE, settled
from .grids import NOON

PLACES = {
    "grid": "",
    "site": "?site=east",
    "host": "?host=e1",
    "lost host": "?host=w4",
    "series": "?series=cpu.new@e1",
    "matrix": "?view=matrix&pair=e2%3Ew2",
    "limits": "?view=matrix&measure=bandwidth&limit=50MB/s&pair=e2%3Ee1",
    "events": "?view=events",
    "custom": f"?from={NOON - 7200:.0f}&to={NOON:.0f}",
}

#: Visible texts with the colours of text and ground, where the ground is one colour; contrast after WCAG 2.
CONTRASTS = text_of("nws/web/looks_contrasts.js")

#: Controls without a name, ids that are there twice, labels that lead nowhere.
NAMES = text_of("nws/web/looks_names.js")

#: What sticks out of the page sideways.
OVERFLOW = text_of("nws/web/looks_overflow.js")


def plots_ready(page):
    if page.locator("figure.plot").count():
        page.wait_for_selector("figure.plot[data-loaded]")


@pytest.mark.parametrize("place", PLACES)
def test_all_can_be_read_in_light_and_dark_has_a_name_and_fits_a_phone(open_page, url, place):
    page = open_page(f"{url}/{PLACES[place]}")
    plots_ready(page)
    assert page.evaluate(CONTRASTS) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate(CONTRASTS) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate(CONTRASTS) == []
    assert page.evaluate(NAMES) == []
    assert page.evaluate(OVERFLOW) == []


def test_phone_is_served_from_the_beginning(open_page, url):
    page = open_page(f"{url}/?host=e1", viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    plots_ready(page)
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate("() => visualViewport.scale") == 1
    page.locator("a[data-range='6h']").tap()
    page.wait_for_url("**range=6h*")


def test_matrix_scrolls_inside_its_own_box(open_page, url):
    page = open_page(f"{url}/?view=matrix", viewport={"width": 300, "height": 700})
    page.wait_for_selector("table.matrix td[role]")
    inner, outer = page.locator(".matrixbox").evaluate("n => [n.scrollWidth, n.clientWidth]")
    assert inner > outer
    assert page.evaluate(OVERFLOW) == []


def test_choice_of_colours_is_kept(open_page, url):
    page = open_page(url, color_scheme="dark")
    theme = page.locator("html")
    button = page.locator("#theme")
    assert (theme.get_attribute("data-theme"), button.inner_text()) == ("dark", "◐ Auto")
    dark = page.locator("body").evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    button.click()
    assert (theme.get_attribute("data-theme"), button.inner_text()) == ("light", "☀ Light")
    light = page.locator("body").evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    page.reload()
    settled(page)
    assert theme.get_attribute("data-theme") == "light"
    page.emulate_media(color_scheme="light")
    button.click()
    assert theme.get_attribute("data-theme") == "dark"
    button.click()
    assert theme.get_attribute("data-theme") == "light"


def test_plots_take_the_colours_of_the_theme(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1")
    page.wait_for_selector("figure[data-loaded]")
    pixels = "() => document.querySelector('canvas').toDataURL()"
    light = page.evaluate(pixels)
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.evaluate(pixels) != light


def test_tab_goes_from_the_skip_link_through_the_header_and_is_always_seen(open_page, url):
    page = open_page(url)
    page.keyboard.press("Tab")
    skip = page.locator(".skip")
    assert skip.evaluate("n => n === document.activeElement && n.getBoundingClientRect().top >= 0")
    order = []
    for _ in range(18):
        page.keyboard.press("Tab")
        text, width = page.evaluate(
            "() => { const n = document.activeElement;"
            " return [n.ariaLabel || n.textContent || n.id, getComputedStyle(n).outlineWidth]; }"
        )
        assert width == "3px", text
        order.append(text)
    assert order[:4] == ["lab", "Hosts", "Links", "Events"]
    assert {"1 h", "30 d", "From – to", "Earlier", "Live", "Refresh now"} <= set(order)


def test_skip_link_leads_to_the_content(open_page, url):
    page = open_page(url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "content"
    assert page.locator("tr[data-host]").count() == 8


def test_after_a_link_the_new_heading_has_the_focus(open_page, url):
    page = open_page(url)
    page.locator("tr[data-host=e1] a").focus()
    page.keyboard.press("Enter")
    settled(page)
    assert (
        page.evaluate("() => document.activeElement.tagName + document.activeElement.textContent") == "H1e1"
    )


def test_refresh_leaves_the_focus_where_it_was(open_page, url):
    page = open_page(url)
    page.locator("#crumbs a").first.focus()
    before = page.locator("ol.events a").first
    before.focus()
    with page.expect_response("**/v1/events*"):
        page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_load_state("networkidle")
    assert before.evaluate("n => n === document.activeElement")


def test_those_who_want_no_motion_get_none(open_page, url):
    still = open_page(url)
    moving = open_page(url, reduced_motion="no-preference")
    duration = "n => getComputedStyle(n).transitionDuration"
    assert still.locator(".fill").first.evaluate(duration) == "0s"
    assert moving.locator(".fill").first.evaluate(duration) == "0.3s"
