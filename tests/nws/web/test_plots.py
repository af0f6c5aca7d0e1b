"""Plots, read through what stands for them: the sentence, the readout and the table."""

import csv
import re
from pathlib import Path

from .conftest import settled
from .grids import GAP, NOON, cpu_at, is_near, times_until


def loaded(page, series):
    figure = page.locator(f"figure[data-series='{series}']")
    page.wait_for_selector(f"figure[data-series='{series}'][data-loaded]")
    return figure


def open_table(figure):
    figure.locator("details.values summary").click()
    figure.locator("details.values table").wait_for()
    rows = figure.locator("details.values tbody tr")
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def test_series_page_tells_measurements_forecast_error_method_and_gaps(open_page, url, grid):
    name = "cpu.new@e1"
    page = open_page(f"{url}/?series={name}")
    figure = loaded(page, name)
    sentence = figure.locator(".sentence").inner_text()
    t = times_until(NOON - 5.0)
    values = cpu_at(t)
    assert f"least {values.min():.3f} CPU" in sentence
    assert f"greatest {values.max():.3f} CPU" in sentence
    assert f"last {values[-1]:.3f} CPU at 2026-11-20 11:59:55" in sentence
    assert "1 gap." in sentence
    (forecast,) = grid.service.forecasts([name]).values()
    told = page.locator("main dl.facts").inner_text()
    assert forecast.method in told
    assert f"{forecast.mae:#.3g}" in told
    assert f"{forecast.rmse:#.3g}" in told
    assert f"{forecast.samples:,}" in told


def test_table_has_every_point_its_forecast_and_the_gap(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1")
    rows = open_table(loaded(page, "cpu.new@e1"))
    newest = rows[0]
    assert newest[0] == "2026-11-20 11:59:55"
    expected = float(cpu_at(times_until(NOON - 5.0))[-1])
    assert is_near(float(newest[1].split()[0]), expected)
    assert newest[2].endswith(" CPU")
    assert re.fullmatch(r"± [\d.e-]+ CPU", newest[3])
    page.locator("details.values .scroll").wait_for()


def test_short_time_in_the_gap_says_so(open_page, url):
    middle = sum(GAP) / 2
    page = open_page(f"{url}/?series=cpu.new@e1&from={middle - 60:.0f}&to={middle + 60:.0f}")
    figure = loaded(page, "cpu.new@e1")
    assert figure.locator(".sentence").inner_text() == "No values in this time."
    assert figure.locator(".readout").inner_text() == "No values in this time."


def test_gap_is_a_row_of_the_table(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1&from={GAP[0] - 300:.0f}&to={GAP[1] + 300:.0f}")
    rows = open_table(loaded(page, "cpu.new@e1"))
    gaps = [row for row in rows if row[1] == "gap"]
    assert len(gaps) == 1
    assert "11:20:00" < gaps[0][0].split()[1] < "11:26:00"


def test_arrow_keys_read_a_plot_point_by_point(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1")
    figure = loaded(page, "cpu.new@e1")
    readout = figure.locator(".readout")
    figure.locator(".canvas").focus()
    page.keyboard.press("End")
    assert readout.inner_text().startswith("11:59:55 · measured ")
    page.keyboard.press("ArrowLeft")
    assert readout.inner_text().startswith("11:59:45 · ")
    assert re.search(r"forecast [\d.]+ ± [\d.]+ CPU", readout.inner_text())
    page.keyboard.press("Home")
    assert readout.inner_text().startswith("11:0")
    page.keyboard.press("Escape")
    assert readout.inner_text().startswith("11:59:55 · ")


def test_events_stand_at_their_time_on_the_plot(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1")
    figure = loaded(page, "cpu.new@e1")
    figure.locator(".canvas").focus()
    page.keyboard.press("End")
    seen = set()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
        seen.update(figure.locator(".readout").inner_text().split(" · "))
    assert "note e1: <b>fan</b> replaced" in seen
    listed = page.locator("ol.events").inner_text()
    assert "64 rows on e1, e2, w1" in listed
    assert "w4" not in listed


def test_marked_time_becomes_the_time_of_the_page(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1")
    loaded(page, "cpu.new@e1")
    box = page.locator(".canvas .u-over").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_url("**from=*")
    since, until = (float(v) for v in re.search(r"from=(\d+)&to=(\d+)", page.url).groups())
    assert 600 < until - since < 1200
    # the fan after now takes 15 % of the length beside it
    assert abs(until - (NOON - 3600 + 0.75 * 1.15 * 3600)) < 120
    page.go_back()
    assert "from=" not in page.url


def test_values_are_saved_with_full_precision(open_page, url, tmp_path):
    page = open_page(f"{url}/?series=cpu.new@e1")
    figure = loaded(page, "cpu.new@e1")
    open_table(figure)
    with page.expect_download() as saving:
        figure.get_by_role("button", name="Save as CSV").click()
    target = Path(tmp_path) / "saved.csv"
    saving.value.save_as(target)
    assert saving.value.suggested_filename == "cpu.new@e1.csv"
    with target.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["t"]) == NOON - 5.0
    assert float(rows[-1]["value"]) == float(cpu_at(times_until(NOON - 5.0))[-1])


def test_long_time_is_told_in_means_with_least_and_greatest(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@e1&range=7d")
    figure = loaded(page, "cpu.new@e1")
    assert " means of " in figure.locator(".sentence").inner_text()
    rows = open_table(figure)
    assert " … " in rows[0][4]


def test_host_page_has_a_plot_of_every_series_and_loads_those_in_sight(open_page, url):
    page = open_page(f"{url}/?host=e1")
    own = ["cpu.new", "cpu.running", "cpu.capacity", "memory.free"]
    figures = page.locator("details.plotsection").first.locator("figure.plot")
    assert figures.evaluate_all("list => list.map(f => f.dataset.series)") == [f"{r}@e1" for r in own]
    loaded(page, "cpu.new@e1")
    section = page.locator("details.plotsection").nth(2)
    assert section.locator("figure").count() == 0
    section.locator("summary").first.click()
    section.locator("figure").first.wait_for()
    series = section.locator("figure").evaluate_all("list => list.map(f => f.dataset.series)")
    assert series == [f"network.{r}@{p}" for r in ("latency", "bandwidth") for p in ("e1>e2", "e2>e1")]
    loaded(page, "network.latency@e1>e2")


def test_lost_hosts_plot_ends_and_says_how_long_ago(open_page, url):
    page = open_page(f"{url}/?series=cpu.new@w4")
    figure = loaded(page, "cpu.new@w4")
    assert figure.locator("h2 .age").inner_text() == "30 min, stale"
    assert "2 gaps." in figure.locator(".sentence").inner_text()
    states = page.locator("dl.facts .value").evaluate_all("list => list.map(n => n.dataset.stale)")
    assert states == ["yes"] * 4


def test_pairs_page_leads_to_the_way_back_and_the_other_measure(open_page, url):
    page = open_page(f"{url}/?series=network.latency%40e1%3Ee2")
    page.get_by_role("link", name="The way back").click()
    settled(page)
    assert page.locator(".seriesname").inner_text() == "network.latency@e2>e1"
    page.get_by_role("link", name="Bandwidth of this link").click()
    settled(page)
    assert page.locator(".seriesname").inner_text() == "network.bandwidth@e2>e1"
    assert "25.0 MB/s" in page.locator("main dl.facts").inner_text()


def test_series_page_has_means_from_now_on(open_page, url, grid):
    name = "cpu.new@e1"
    page = open_page(f"{url}/?series={name}")
    loaded(page, name)
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("table.horizons tbody tr").all()]
    assert [row[0] for row in rows] == ["60 s", "10 min", "1.0 h", "1.0 d"]
    (forecast,) = grid.service.forecasts([name], over_s=(600.0,)).values()
    (ten,) = forecast.outlooks
    low, high = (float(text.split()[0]) for text in rows[1][2].split(" … "))
    assert is_near(low, ten.low)
    assert is_near(high, ten.high)
    # a percentage of few would be that of no number of them
    assert 0 < ten.outcomes < 100
    assert rows[1][3] == f"{ten.held * ten.outcomes:.0f} of {ten.outcomes:.0f}"
