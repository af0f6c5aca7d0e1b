"""Distributions of means over spans, from a real service: forecasts, snapshot and metrics agree."""

import re

import pytest

from nws.series import SHARES
from nws.server.serve import ServerThread
from nws.server.tokens import Tokens
from nws.service.serviceconfig import ServiceConfig
from nws.service.weatherservice import WeatherService

NOW = 1_795_000_000.0


@pytest.fixture(scope="module")
def call(calling):
    """A server with two series."""
    with (
        WeatherService(ServiceConfig(), clock=lambda: NOW, in_memory=True) as service,
        ServerThread(service, Tokens.none()) as server,
    ):
        ask = calling(server.url)
        batch = {
            "series": ["cpu.new@alpha", "network.latency@alpha>beta"],
            "index": [0, 1],
            "t": [NOW, NOW],
            "value": [0.5, 1e-4],
        }
        assert ask("POST", "/v1/measurements", batch).status_code == 200
        yield ask


def test_forecasts_over_spans_have_distributions(call):
    path = "/v1/forecasts?series=cpu.new%40alpha&over=600&over=60&over=600"
    answer = call("GET", path).json()
    assert answer["shares"] == list(SHARES)
    (row,) = answer["forecasts"]
    assert [one["over_s"] for one in row["outlooks"]] == [60.0, 600.0]
    for one in row["outlooks"]:
        assert one["quantiles"] == sorted(one["quantiles"])
        assert 0 < one["quantiles"][0] < 0.5 < one["quantiles"][-1] <= 1.0
        assert (one["held"], one["outcomes"]) == (None, 0.0)


def test_snapshot_over_spans_equals_the_forecasts(call):
    rows = call("GET", "/v1/forecasts?over=60&over=600").json()["forecasts"]
    columns = call("GET", "/v1/snapshot?over=60&over=600").json()["outlooks"]
    assert columns["over_s"] == [60.0, 600.0]
    for i, row in enumerate(rows):
        for part in ("mean", "held", "outcomes", "quantiles"):
            assert columns[part][i] == [one[part] for one in row["outlooks"]]
    assert "outlooks" not in call("GET", "/v1/snapshot").json()


def test_metrics_over_a_span_have_its_quantiles(call):
    assert "nws_series_outlook" not in call("GET", "/metrics").text
    (row, _) = call("GET", "/v1/forecasts?over=600").json()["forecasts"]
    (outlook,) = row["outlooks"]
    text = call("GET", "/metrics?over=600").text
    for share in (0.1, 0.5, 0.9):
        line = rf'nws_series_outlook{{resource="cpu.new",host="alpha",unit="CPU",over="600",quantile="{share}"}} (\S+)'
        (found,) = re.findall(line, text)
        assert float(found) == outlook["quantiles"][SHARES.index(share)]
