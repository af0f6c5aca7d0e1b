"""Grid → site → host → series, and every state an address."""

from urllib.parse import parse_qs, urlsplit

from .conftest import settled, wait_for_count


def crumbs(page):
    return page.locator("#crumbs a").all_inner_texts()


def query(page):
    return {
        name: values[0] for name, values in parse_qs(urlsplit(page.url).query, keep_blank_values=True).items()
    }


def heading(page):
    return page.locator("h1").inner_text()


def test_from_the_grid_down_to_a_series_and_back_up(open_page, url):
    page = open_page(url)
    assert crumbs(page) == ["lab"]
    page.get_by_role("link", name="east", exact=True).click()
    settled(page)
    assert (query(page), crumbs(page), heading(page)) == ({"site": "east"}, ["lab", "east"], "east")
    page.locator("tr[data-host=e2]").get_by_role("link", name="e2").click()
    settled(page)
    assert (query(page), crumbs(page)) == ({"host": "e2"}, ["lab", "east", "e2"])
    page.get_by_role("link", name="Free memory").click()
    settled(page)
    assert query(page) == {"series": "memory.free@e2"}
    assert crumbs(page) == ["lab", "east", "e2", "Free memory on e2"]
    assert page.title() == "Free memory on e2 – lab"
    page.locator("#crumbs").get_by_role("link", name="e2", exact=True).click()
    settled(page)
    assert heading(page) == "e2"
    page.locator("#crumbs").get_by_role("link", name="lab").click()
    settled(page)
    assert page.locator("tr[data-host]").count() == 8


def test_copied_address_shows_the_same_thing(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1&range=6h&stale=15m&live=0")
    assert crumbs(page)[-1] == "CPU for a new process on e1"
    assert page.locator("#times [aria-current]").inner_text() == "6 h"
    assert page.locator("#stale").input_value() == "15m"
    assert page.get_by_role("button", name="Live").get_attribute("aria-pressed") == "false"
    again = open_page(page.url)
    assert crumbs(again) == crumbs(page)
    assert again.locator("#times [aria-current]").inner_text() == "6 h"


def test_back_and_forward_go_through_what_was_seen(open_page, url):
    page = open_page(url)
    page.locator("#places").get_by_role("link", name="Links").click()
    page.wait_for_selector("table.matrix td[role]")
    page.get_by_role("link", name="Bandwidth").click()
    page.get_by_role("link", name="6 h").click()
    assert query(page) == {"view": "matrix", "measure": "bandwidth", "range": "6h"}
    page.go_back()
    assert query(page) == {"view": "matrix", "measure": "bandwidth"}
    assert page.locator(".measures [aria-current]").inner_text() == "Bandwidth"
    page.go_back()
    assert page.locator(".measures [aria-current]").inner_text() == "Latency"
    page.go_back()
    page.wait_for_selector("tr[data-host]")
    assert heading(page) == "lab"
    page.go_forward()
    page.wait_for_selector("table.matrix td[role]")
    assert heading(page) == "Links"


def test_time_goes_along_to_other_places_and_their_own_state_does_not(open_page, url):
    page = open_page(f"{url}/?range=24h&q=e&sort=cpu")
    page.locator("tr[data-host=e1]").get_by_role("link", name="e1").click()
    settled(page)
    assert query(page) == {"host": "e1", "range": "24h"}


def test_hosts_are_found_by_name_site_and_state(open_page, url):
    page = open_page(url)
    hosts = page.locator("tr[data-host]")
    page.get_by_role("searchbox").fill("west")
    wait_for_count(page.locator("tr[data-host]"), 4)
    assert query(page) == {"q": "west"}
    page.get_by_role("searchbox").fill("is:lost")
    wait_for_count(page.locator("tr[data-host]"), 1)
    assert hosts.get_attribute("data-host") == "w4"
    assert "1 of 8 hosts" in page.locator(".note").first.inner_text()
    page.get_by_role("searchbox").fill("nowhere")
    wait_for_count(page.locator("tr[data-host]"), 0)


def test_tile_of_lost_hosts_leads_to_them(open_page, url):
    page = open_page(url)
    page.locator("dd[data-tile=lost] a").click()
    wait_for_count(page.locator("tr[data-host]"), 1)
    assert query(page) == {"q": "is:lost"}


def test_hosts_are_sorted_by_what_a_heading_says(open_page, url):
    page = open_page(url)
    page.locator("section.site").first.get_by_role("link", name="Age").click()
    page.wait_for_selector("tbody tr:first-child[data-host=e3]")
    assert page.locator("th[aria-sort]").first.inner_text() == "Age"
    assert query(page) == {"sort": "age"}


def test_overview_tells_what_the_service_has(open_page, url, grid):
    page = open_page(url)
    tiles = {name: page.locator(f"dd[data-tile={name}]").inner_text() for name in ("hosts", "lost", "stale")}
    assert tiles == {"hosts": "8", "lost": "1", "stale": "1"}
    row = page.locator("tr[data-host=e1]")
    (cpu,) = [s.last for s in grid.service.series(host="e1", resource="cpu.new")]
    (memory,) = [s.last for s in grid.service.series(host="e1", resource="memory.free")]
    assert row.locator(".c-cpu").inner_text() == f"{cpu:.3f}"
    assert row.locator(".c-memory").inner_text() == f"{memory / 1e9:.1f} GB"
    assert row.locator(".c-age").inner_text().endswith(" s")
    page.wait_for_selector("tr[data-host=e1] svg[aria-label*=' to ']")


def test_old_values_look_old_and_lost_hosts_are_marked(open_page, url):
    page = open_page(url)
    fresh, stale, lost = (page.locator(f"tr[data-host={h}]") for h in ("e1", "e3", "w4"))
    assert [r.get_attribute("data-state") for r in (fresh, stale, lost)] == ["ok", "stale", "lost"]
    assert stale.locator(".c-age").inner_text() == "15 min, stale"
    assert lost.locator("th").inner_text().split() == ["w4", "✕", "lost"]
    colours = [r.locator(".bar.cpu").evaluate("n => getComputedStyle(n).color") for r in (fresh, stale, lost)]
    assert colours[0] != colours[1] == colours[2]
    assert stale.locator(".bar.cpu").evaluate("n => getComputedStyle(n).fontStyle") == "italic"
    assert "gradient" in stale.locator(".bar.cpu .fill").evaluate("n => getComputedStyle(n).backgroundImage")


def test_from_which_age_a_value_is_stale_is_the_readers_choice(open_page, url):
    page = open_page(url)
    page.locator("#stale").select_option("1h")
    page.wait_for_selector("tr[data-host=e3][data-state=ok]")
    assert query(page) == {"stale": "1h"}
    assert page.locator("tr[data-host=w4]").get_attribute("data-state") == "lost"


def test_names_that_do_not_exist_are_answered_with_a_message(open_page, url):
    page = open_page(f"{url}/?host=nobody", ready=False, expected=("404",))
    banner = page.locator("#banner.refused")
    banner.wait_for()
    assert "nobody" in banner.inner_text()
    assert "404" in banner.inner_text()
    page.locator("#crumbs a").first.click()
    settled(page)
    assert page.locator("#banner").inner_text() == ""


def test_what_the_server_says_is_shown_as_text_never_as_markup(open_page, url):
    page = open_page(f"{url}/?view=events")
    assert "<b>fan</b> replaced" in page.locator("ol.events").inner_text()
    assert page.locator("ol.events b").count() == 0


def test_events_are_listed_newest_first_and_by_kind(open_page, url):
    page = open_page(f"{url}/?view=events")
    kinds = page.locator("ol.events .kind").all_inner_texts()
    assert kinds[-1] in ("plan made", "host registered")
    assert {"plan made", "run ended", "note", "host lost"} <= set(kinds)
    page.locator("#kind").select_option("plan made")
    wait_for_count(page.locator("ol.events li"), 1)
    assert query(page) == {"view": "events", "kind": "plan made"}
    assert "64 rows on e1, e2, w1" in page.locator("ol.events li").inner_text()


def test_host_page_tells_what_the_host_is(open_page, url):
    page = open_page(f"{url}/?host=e1")
    told = page.locator("main dl.facts").inner_text()
    for part in ("10.0.0.1, port 4000", "8 × Model 7", "32.0 GB", "between", "● there"):
        assert part in told
    sections = page.locator("details.plotsection > summary h2").all_inner_texts()
    assert sections == [
        "The host itself",
        "Within the host",
        "Links with e2",
        "Links with e3",
        "Links with e4",
        "Links with w1",
    ]
