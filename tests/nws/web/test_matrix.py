"""Source × destination: every measure, thresholds, composed pairs, by mouse and by keyboard."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.transcripts import recorded

from .conftest import leave, settled, wait_for_count, wait_for_text
from .grids import Clock, large_grid, latency_s, serve

HOSTS = ["e1", "e2", "e3", "e4", "w1", "w2", "w3", "w4"]


@pytest.fixture
def matrix(open_page, url):
    """`matrix("&measure=age")`: the page with the matrix ready."""

    def open_matrix(more="", **options):
        page = open_page(f"{url}/?view=matrix{more}", **options)
        page.wait_for_selector("table.matrix td[role]")
        return page

    return open_matrix


def cell(page, a, b):
    names = page.locator("table.matrix tbody th").all_inner_texts()
    columns = page.locator("table.matrix thead th").all_inner_texts()
    return page.locator("table.matrix tbody tr").nth(names.index(a)).locator("td").nth(columns.index(b))


def name(page, a, b):
    return cell(page, a, b).get_attribute("aria-label")


def query(page):
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def test_pair_has_a_cell_named_in_full(matrix):
    page = matrix()
    assert page.locator("table.matrix tbody th").all_inner_texts() == HOSTS
    assert page.locator("table.matrix td[role=gridcell]").count() == 64
    value = f"{1000 * latency_s(0, 1, far=False):.3f}"[:5]
    assert re.fullmatch(
        rf"e1 to e2: latency ({float(value):.3f} ms|{1e6 * latency_s(0, 1, far=False):.0f} µs), measured",
        name(page, "e1", "e2"),
    )
    assert name(page, "e1", "w1").startswith("e1 to w1: latency 5.0")


def test_composed_pairs_are_marked_and_say_via_whom(matrix):
    page = matrix()
    assert name(page, "e2", "w2").endswith("composed via e1, w1")
    assert cell(page, "e2", "w2").get_attribute("data-composed") == "yes"
    assert cell(page, "e1", "e2").get_attribute("data-composed") is None
    cell(page, "e2", "w2").hover()
    assert page.locator(".look").inner_text().endswith("composed via e1, w1")
    cell(page, "e2", "w2").click()
    told = page.locator(".detail").inner_text()
    assert "No clique measures this pair" in told
    legs = page.locator(".explain a").all_inner_texts()
    assert legs == ["e2 → e1", "e1 → w1", "w1 → w2"]
    assert query(page)["pair"] == "e2>w2"


def test_links_of_stale_and_lost_hosts_look_stale(matrix):
    page = matrix()
    for a, b in (("e1", "e3"), ("w4", "w1")):
        assert name(page, a, b).endswith(", stale")
        assert "gradient" in cell(page, a, b).evaluate("n => getComputedStyle(n).backgroundImage")
    assert cell(page, "e1", "e2").get_attribute("data-stale") is None


@recorded("nws/web/matrix_measures.txt", "measure", "a", "b")
def test_measures(matrix, answered, measure, a, b):
    answered(name(matrix(f"&measure={measure}"), a, b))


def test_threshold_colours_cells_and_stands_in_the_address(matrix):
    page = matrix()
    page.locator("#limit").fill("3 ms")
    page.keyboard.press("Enter")
    page.wait_for_url("**limit=3*")
    verdicts = {
        pair: cell(page, *pair).get_attribute("data-verdict")
        for pair in (("e1", "e2"), ("e1", "w1"), ("e2", "w2"))
    }
    assert verdicts == {("e1", "e2"): "well", ("e1", "w1"): "beyond", ("e2", "w2"): "beyond"}
    assert name(page, "e1", "w1").endswith("beyond its threshold")
    assert "above 3.00 ms ▲" in page.locator(".keys").inner_text()
    page.locator("#limit").fill("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("td[data-verdict=far]")
    assert query(page)["limit"] == "1"


def test_low_bandwidth_is_what_is_worse(matrix):
    page = matrix("&measure=bandwidth&limit=50MB/s")
    assert cell(page, "e2", "e1").get_attribute("data-verdict") == "beyond"
    assert cell(page, "e1", "e2").get_attribute("data-verdict") == "well"


def test_threshold_that_makes_no_sense_is_told(matrix):
    page = matrix()
    page.locator("#limit").fill("5 bananas")
    page.keyboard.press("Enter")
    assert (
        page.locator(".limit .problem").inner_text() == "“5 bananas” is no threshold; write for example 5 ms"
    )
    assert "limit" not in query(page)


def test_one_link_can_have_a_threshold_of_its_own(matrix):
    page = matrix("&limit=3ms")
    cell(page, "e1", "w1").click()
    own = page.get_by_label("Latency threshold of this link alone")
    own.fill("20 ms")
    own.press("Enter")
    page.wait_for_url("**limits=*")
    assert query(page)["limits"] == "e1>w1:20ms"
    page.wait_for_selector("td[data-verdict=well][aria-label^='e1 to w1']")
    again = matrix(f"&{urlsplit(page.url).query.partition('&')[2]}")
    assert cell(again, "e1", "w1").get_attribute("data-verdict") == "well"
    assert cell(again, "w1", "e1").get_attribute("data-verdict") == "beyond"


def test_matrix_is_one_stop_for_tab_and_arrows_move_in_it(matrix):
    page = matrix()
    assert page.locator("table.matrix td[tabindex='0']").count() == 1
    cell(page, "e1", "e1").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focused = page.locator("table.matrix td:focus")
    assert focused.get_attribute("aria-label").startswith("e2 to e2")
    assert page.locator(".look").inner_text().startswith("e2 to e2")
    page.keyboard.press("End")
    assert focused.get_attribute("aria-label").startswith("e2 to w4")
    page.keyboard.press("ArrowRight")
    assert focused.get_attribute("aria-label").startswith("e2 to w4")
    page.keyboard.press("Control+Home")
    assert focused.get_attribute("aria-label").startswith("e1 to e1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**pair=*")
    assert page.locator(".detail h2").inner_text() == "e1 → e2"
    assert (
        page.locator("table.matrix td[aria-selected=true]").get_attribute("aria-label").startswith("e1 to e2")
    )
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Latency over time"


def test_group_against_another(matrix):
    page = matrix()
    page.locator("#rows").select_option("east")
    wait_for_count(page.locator("table.matrix td[role]"), 16)
    page.locator("#cols").select_option("west")
    wait_for_text(page.locator("table.matrix thead"), "w1")
    assert query(page) == {"view": "matrix", "rows": "east", "cols": "west"}
    assert page.locator("table.matrix tbody th").all_inner_texts() == HOSTS[:4]
    page.go_back()
    page.go_back()
    wait_for_count(page.locator("table.matrix td[role]"), 64)


def test_refresh_keeps_the_cell_that_has_the_focus(matrix):
    page = matrix()
    cell(page, "w1", "w2").focus()
    with page.expect_response("**/v1/snapshot*"):
        page.keyboard.press("Shift+Tab")
        page.get_by_role("button", name="Refresh now").click()
    page.wait_for_load_state("networkidle")
    cell(page, "w1", "w2").focus()
    assert page.locator("table.matrix td:focus").get_attribute("aria-label").startswith("w1 to w2")


def test_many_hosts_are_looked_at_by_site_then_host_by_host(open_page, chromium):
    grid = large_grid(Clock(), hosts=150, sites=3)
    with grid.service, serve(grid) as server:
        page = open_page(f"{server.url}/?view=matrix")
        wait_for_count(page.locator("table.matrix td[role]"), 9)
        assert "Worst measured link" in page.locator(".note").inner_text()
        first = page.locator("table.matrix td[role]").first
        assert re.search(
            r"site00 to site00: latency at worst .*, median .*, \d+ measured links",
            first.get_attribute("aria-label"),
        )
        page.locator("table.matrix td[role]").nth(1).click()
        page.wait_for_url("**rows=site00*")
        settled(page)
        wait_for_count(page.locator("table.matrix td[role]"), 50 * 50)
        assert query(page)["cols"] == "site01"
        page.wait_for_selector("table.matrix td[data-composed]")
        assert page.locator("table.matrix td[data-composed]").count() > 2000
        page.get_by_role("link", name="Hosts", exact=True).click()
        page.wait_for_selector("table.sitelist tbody tr")
        assert page.locator("table.sitelist tbody tr").count() == 3
        assert page.locator("tr[data-host]").count() == 0
        page.get_by_role("link", name="site01").click()
        wait_for_count(page.locator("tr[data-host]"), 50)
        leave(page)
