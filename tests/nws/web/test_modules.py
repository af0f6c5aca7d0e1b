"""The pure parts of the page, asked in the browser that runs them."""

import json

import pytest

from tests.transcripts import recorded


@pytest.fixture(scope="module")
def ask(chromium, shown_grid):
    """`ask("units", "quantity(23e9, 'B')")`: value of an expression over the names a module exports."""
    context = chromium.new_context(timezone_id="UTC")
    page = context.new_page()
    page.goto(shown_grid[1])

    def ask_(module, expression):
        script = f"""async () => {{
            const names = await import(new URL("static/{module}.js", document.baseURI));
            const run = new Array();
            const {{ {exported(page, module)} }} = names;
            return {expression};
        }}"""
        return page.evaluate(script)

    yield ask_
    context.close()


def exported(page, module):
    names = page.evaluate(
        f'async () => Object.keys(await import(new URL("static/{module}.js", document.baseURI)))'
    )
    return ", ".join(names)


@recorded("nws/web/quantities.txt", "value", "unit")
def test_quantities_are_told_with_their_prefix(ask, answered, value, unit):
    answered(ask("units", f"quantity({json.dumps(value)}, {json.dumps(unit)})"))


def test_error_has_the_prefix_of_its_value(ask):
    assert ask("units", "withError(0.0125, 0.0004, 's')") == "12.5 ± 0.400 ms"
    assert ask("units", "withError(0.0125, null, 's')") == "12.5 ms"


def test_spans_of_time_are_told_as_on_the_command_line(ask):
    from nws.cli.tables import duration

    spans = [0, 59, 119, 120, 3599, 3600, 86399, 86400, 1e6]
    assert ask("units", f"{spans}.map(duration)") == [duration(s) for s in spans]


@recorded("nws/web/thresholds.txt", "text", "unit", "bare")
def test_thresholds_are_read_as_people_write_them(ask, answered, text, unit, bare):
    number = ask("units", f"parseQuantity({json.dumps(text)}, {json.dumps(unit)}, {bare})")
    answered(number if number is None else f"{number:.12g}")


def test_address_that_makes_no_sense_is_the_overview(ask):
    state = ask("address", "parse('?range=9h&from=5&to=3&stale=never&measure=colour&sort=beauty&by=chance')")
    assert state["place"] == "grid"
    assert (state["range"], state["live"], state["stale_s"]) == ("1h", True, 300)
    assert (state["measure"], state["sort"], state["by"]) == ("latency", "name", "site")


def test_gaps_are_found_between_points_and_after_the_last(ask):
    span = "{since: 0, until: 100}"
    columns = "{t: [10, 20, 30, 40, 50], value: [1, null, 2, 3, null]}"
    assert ask("plot/data", f"gaps({columns}, {span}, 60)") == [[10, 30], [40, 100]]
    assert ask("plot/data", f"gaps({{t: [10, 20], value: [1, 2]}}, {span}, 90)") == []
    assert ask("plot/data", f"gaps({{t: [10, 20], value: [1, 2]}}, {span}, 60)") == [[20, 100]]
    assert ask("plot/data", f"gaps({{t: [], value: []}}, {span}, 60)") == [[0, 100]]


def test_band_is_there_only_where_both_forecast_and_error_are(ask):
    document = "{t: [1, 2, 3], value: [1, 2, 3], forecast: [null, 2, 3], error: [null, null, 0.5]}"
    found = ask("plot/data", f"columns({document})")
    assert (found["under"], found["over"]) == ([None, None, 2.5], [None, None, 3.5])
    assert found["low"] == [None, None, None]


def test_table_of_very_many_points_is_thinned_and_keeps_the_newest(ask):
    document = "{unit: 's', t: Array.from({length: 1000}, (_, i) => i)}"
    found = ask(
        "plot/data", f"(() => {{ const d = {document}; d.value = d.t; return rows(d, columns(d)); }})()"
    )
    assert found["every"] == 5
    assert len(found["picked"]) == 200
    assert found["picked"][0][:2] == ["1970-01-01 00:16:39", "999 s"]


def test_verdicts_know_which_side_is_worse(ask):
    values = "[0.4, 0.9, 1.9, 2.1]"
    assert ask("matrix/measures", f"{values}.map(v => verdict(MEASURES.latency, v, 1))") == [
        "well",
        "within",
        "beyond",
        "far",
    ]
    assert ask("matrix/measures", f"{values}.map(v => verdict(MEASURES.bandwidth, 1 / v, 1))") == [
        "well",
        "within",
        "beyond",
        "far",
    ]


def test_thresholds_of_single_links_survive_the_address(ask):
    found = ask(
        "matrix/measures",
        "[...parseLimits(MEASURES.latency, 'a>b:5ms,c>d:nonsense,e:7,x.y>z:20ms')]",
    )
    assert found == [["a>b", "5ms"], ["e", "7"], ["x.y>z", "20ms"]]
    assert ask("matrix/measures", "formatLimits(new Map([['a>b', '5ms'], ['c>d', '7']]))") == "a>b:5ms,c>d:7"


def test_steps_go_from_best_to_worst_by_equal_ratios(ask):
    assert ask("matrix/measures", "[1, 10, 1000, 1e6].map(steps(MEASURES.latency, [1, 1e6]).place)") == [
        0,
        1,
        3,
        5,
    ]
    assert ask("matrix/measures", "[1, 1e6].map(steps(MEASURES.bandwidth, [1, 1e6]).place)") == [5, 0]
    assert ask("matrix/measures", "steps(MEASURES.latency, []).wide") is False


def test_no_group_is_larger_than_a_matrix_can_be(ask):
    hosts = "Array.from({length: 150}, (_, i) => ({name: `n${i}`, site: i < 10 ? null : 'big', cliques: []}))"
    found = ask("matrix/groups", f"groupsOf({hosts}, 'site')")
    assert [(g["name"], len(g["hosts"])) for g in found] == [
        ("big 1–64", 64),
        ("big 65–128", 64),
        ("big 129–140", 12),
        ("no site", 10),
    ]
    assert ask("matrix/groups", f"groupsOf({hosts}, 'clique').length") == 3
