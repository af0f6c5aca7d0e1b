"""`/metrics`: a page that Prometheus can read, and what stands on it."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nws.server.metricspage import Exposition, labels, number

_SAMPLE = re.compile(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)'
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text):
    """{family: (type, {(name, labels): value})}; asserts every rule of the text format that a page can break."""
    assert text.endswith("\n")
    families, current, seen = {}, None, set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in families, f"{current} stands in two places"
            families[current] = [None, {}]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            assert kind in ("counter", "gauge", "histogram")
            families[name][0] = kind
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, text_of_labels, value = match.groups()
            assert name == current or (
                families[current][0] == "histogram"
                and name in (f"{current}_bucket", f"{current}_sum", f"{current}_count")
            ), f"{name} stands under {current}"
            pairs = tuple(
                (k, re.sub(r'\\[\\"n]', lambda m: _UNESCAPED[m[0]], v))
                for k, v in _LABEL.findall(text_of_labels or "")
            )
            assert (name, pairs) not in seen, f"{line} stands there twice"
            seen.add((name, pairs))
            assert not math.isnan(float(value))
            families[current][1][name, pairs] = float(value)
    assert all(kind for kind, _ in families.values())
    return families


def values(families, name, family=None):
    return {pairs: value for (n, pairs), value in families[family or name][1].items() if n == name}


@pytest.fixture
def page(call):
    """Reads the page of a service with a host and two series."""
    call("POST", "/v1/hosts/alpha", {"address": "10.0.0.1", "port": 4000})
    batch = {
        "series": ["cpu.new@alpha", "network.latency@alpha>beta", "x.power@alpha"],
        "index": [0, 1, 2],
        "t": [1.79e9, 1.79e9, 1.79e9],
        "value": [0.5, 1e-4, 250.0],
    }
    assert call("POST", "/v1/measurements", batch).status_code == 200

    def read(query=""):
        answer = call("GET", f"/metrics{query}")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.text

    return read


def test_series_has_last_forecast_and_age_and_an_error_once_there_is_one(page):
    families = parse(page())
    cpu = (("resource", "cpu.new"), ("host", "alpha"), ("unit", "CPU"))
    link = (("resource", "network.latency"), ("host", "alpha"), ("peer", "beta"), ("unit", "s"))
    other = (("resource", "x.power"), ("host", "alpha"), ("unit", ""))
    assert values(families, "nws_series_last") == {cpu: 0.5, link: 1e-4, other: 250.0}
    assert values(families, "nws_series_forecast") == {cpu: 0.5, link: 1e-4, other: 250.0}
    assert values(families, "nws_series_age_seconds") == {cpu: 1e7, link: 1e7, other: 1e7}
    assert values(families, "nws_series_error") == {}, "one measurement gives no error"


def test_lost_runs_stand_there_by_host(page):
    families = parse(page())
    runs = values(families, "nws_sensor_runs_total")
    assert runs == {
        (("host", "alpha"), ("outcome", "done")): 3,
        (("host", "alpha"), ("outcome", "missed")): 1,
    }
    assert values(families, "nws_sensor_buffered_samples") == {(("host", "alpha"),): 7}
    assert values(families, "nws_host_lost") == {(("host", "alpha"),): 0}
    assert values(families, "nws_hosts") == {(): 1}


def test_what_was_taken_in_is_counted(page):
    families = parse(page())
    assert values(families, "nws_samples_total")[(("outcome", "accepted"),)] == 3
    assert values(families, "nws_store_bytes") == {(): 4096}
    assert values(families, "nws_healthy") == {(): 1}
    assert values(families, "process_resident_memory_bytes")[()] > 1e7


def test_requests_are_counted_by_route_and_timed(page, call):
    call("GET", "/v1/hosts/alpha")
    call("GET", "/v1/hosts/nobody")
    call("GET", "/nothing/at/all")
    families = parse(page())
    requests = values(families, "nws_http_requests_total")
    found = {(dict(p)["route"], dict(p)["status"]) for p in requests}
    assert {("/v1/hosts/{host}", "200"), ("/v1/hosts/{host}", "404"), ("other", "404")} <= found
    name = "nws_http_request_duration_seconds"
    buckets = values(families, f"{name}_bucket", name)
    of_route = [v for p, v in buckets.items() if dict(p)["route"] == "/v1/hosts/{host}"]
    assert of_route == sorted(of_route), "buckets hold all below their bound"
    assert of_route[-1] == values(families, f"{name}_count", name)[(("route", "/v1/hosts/{host}"),)]


def test_unknown_paths_and_methods_make_no_new_labels(page, call):
    for n in range(5):
        call("GET", f"/made/up/{n}")
        call(f"MADEUP{n}", "/v1/hosts")
    routes = {(dict(p)["route"], dict(p)["method"]) for p in values(parse(page()), "nws_http_requests_total")}
    assert not [r for r in routes if "made" in r[0] or "MADE" in r[1]]


def test_metric_is_in_the_documentation_and_every_one_documented_is_there(page):
    text = (Path(__file__).parents[3] / "docs" / "weather-api.md").read_text()
    documented = set(re.findall(r"`((?:nws|process)_[a-z_]+)(?:\{[a-z,]+\})?`", text))
    assert documented == set(parse(page("?over=600")))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_prometheus_own_checker_finds_nothing_wrong(page):
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=page(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@given(value=st.text(st.sampled_from('a"\\n\n\r {},=\u2028é'), max_size=12))
def test_any_text_is_a_label(value):
    page = Exposition()
    page.family("a", "any\ntext \\ here")
    page.sample("a", 1.0, {"one": value, "other": "b"})
    assert values(parse(b"".join(page.blocks()).decode()), "a") == {(("one", value), ("other", "b")): 1.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.25, "0.25"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (1e-7, "1e-07"), (1e300, "1e+300")],
)
def test_numbers_as_the_format_has_them(value, text):
    assert number(value) == text
    assert float(text) == value


def test_what_is_not_known_is_left_out():
    page = Exposition()
    page.family("a", "A.")
    page.sample("a", math.nan)
    page.column("a", [labels({"b": "c"}), labels({"b": "d"})], [math.nan, 2.0])
    assert b"".join(page.blocks()).decode().splitlines()[2:] == ['a{b="d"} 2.0']
