"""Names of series: the resources that are known, and those from elsewhere."""

import math
import pickle

import pytest
from hypothesis import given, strategies as st

from nws.base.errors import UsageError
from nws.series import External, Forecast, Outlook, Resource, Series
from tests.transcripts import recorded

HOSTS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
EXTERNAL = st.from_regex(r"x\.[a-z0-9_.]{1,60}", fullmatch=True)


@given(st.sampled_from(list(Resource)), HOSTS, HOSTS)
def test_names_of_known_resources_go_there_and_back(resource, host, peer):
    series = Series(resource, host, peer if resource.is_pair else None)
    assert Series.parse(str(series)) == series
    assert series.is_pair == resource.is_pair


@given(EXTERNAL, HOSTS, HOSTS | st.none())
def test_names_from_elsewhere_go_there_and_back(name, host, peer):
    series = Series(External(name), host, peer)
    assert Series.parse(str(series)) == series
    assert (series.resource, series.resource.unit, series.is_pair) == (name, "", peer is not None)


@pytest.mark.parametrize(
    "name", ["x.", "x.Power", "x.a b", "y.power", "x.pow@er", "x." + "a" * 61, "x.é", "power", "x.a\n"]
)
def test_other_names_are_no_resource_from_elsewhere(name):
    with pytest.raises(UsageError, match=r"expected x\. and 1 to 60 of a-z, 0-9, _ and dot"):
        External(name)


@recorded("nws/series_problems.txt", "name")
def test_names_that_are_none(answered, name):
    with pytest.raises(UsageError) as caught:
        Series.parse(name)
    answered(str(caught.value))


def test_series_of_both_kinds_sort_by_name():
    names = ["cpu.new@b", "x.hops@a>b", "memory.free@a", "x.power@a", "network.latency@a>b"]
    assert [str(s) for s in sorted(map(Series.parse, names))] == sorted(names)


def test_series_from_elsewhere_can_be_sent_to_another_process():
    series = Series.parse("x.power@alpha")
    assert pickle.loads(pickle.dumps(series)) == series


def test_forecast_without_outlooks_is_broad_if_error_unknown():
    known, unknown = (
        Forecast(value=0.5, mae=rmse, rmse=rmse, method="last", samples=1, measured_at=0.0, last=0.5).over(
            60.0
        )
        for rmse in (0.05, math.nan)
    )
    assert known.median == unknown.median == 0.5
    assert 0.0 < unknown.low < 0.2 < known.low < known.high < unknown.high
    assert unknown.outcomes == 0


def test_forecast_between_outlooks_is_interpolated_in_log_span():
    outlooks = tuple(
        Outlook(over_s=s, mean=m, quantiles=tuple(m * x for x in (0.5, 0.6, 0.8, 1, 1.2, 1.4, 1.5)))
        for s, m in ((10.0, 1.0), (1000.0, 3.0))
    )
    forecast = Forecast(
        value=1.0, mae=0.1, rmse=0.1, method="", samples=9, measured_at=0.0, last=1.0, outlooks=outlooks
    )
    found = forecast.over(100.0)
    assert found.mean == pytest.approx(2.0)
    assert found.low == pytest.approx(1.2)
    assert forecast.over(1.0).mean == 1.0
    assert forecast.over(1e6).mean == 3.0
    assert found.quantile(0.1) == pytest.approx(found.low)
    assert 0.0 < found.quantile(0.001) < found.quantile(0.05) < found.quantile(0.6) < found.quantile(0.999)
