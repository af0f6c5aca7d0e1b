"""Samples and plots: in the resolution a time span asks for, with what was expected, and gaps as gaps."""

import json
import math

import numpy as np
import pytest

from nws.base.errors import Refused, UnknownSeries
from nws.forecasting.batteries import BatteryBank
from nws.memory import Keep, Memory
from nws.series import Measurement, Series
from nws.server.encoding import encode
from tests.transcripts import recorded

from .helpers import START, batch, settings

ALPHA = "cpu.new@alpha"
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def value():
    return lambda t: 0.5 + 0.4 * math.sin(t / 500)


@pytest.fixture
def measured(service, value):
    """Two hours at 10 s until START, without the twenty minutes in the middle."""
    times = [START - 2 * HOUR + 10 * i for i in range(720)]
    times = [t for t in times if not START - 70 * 60 <= t < START - 50 * 60]
    service.put(batch(*((ALPHA, t, value(t)) for t in times)), as_host=None)
    return service, np.array(times)


def test_samples_as_they_were_measured(measured, value):
    service, times = measured
    found = service.samples(ALPHA, since=START - 1800, until=START - 1200, resolution="raw")
    wanted = times[(times >= START - 1800) & (times <= START - 1200)]
    assert found.t.tolist() == wanted.tolist()
    assert found.value.tolist() == [value(t) for t in wanted]
    assert json.loads(encode(found)).keys() == {"series", "unit", "resolution_s", "t", "value", "truncated"}
    assert (found.unit, found.resolution_s, found.truncated) == ("CPU", 0.0, False)


def test_newest_are_given_where_they_are_too_many(measured):
    service, times = measured
    found = service.samples(ALPHA, since=0, until=START, resolution="raw", most=5)
    assert found.t.tolist() == times[-5:].tolist()
    assert found.truncated


@pytest.mark.parametrize("resolution", ["60", "600"])
def test_buckets(measured, value, resolution):
    service, times = measured
    length = float(resolution)
    found = service.samples(ALPHA, since=START - HOUR / 2, until=START, resolution=resolution)
    assert found.resolution_s == length
    document = json.loads(encode(found))
    for t, mean, low, high, count in zip(
        *(document[k] for k in ("t", "value", "low", "high", "count")), strict=True
    ):
        inside = [value(s) for s in times if t <= s < t + length]
        assert count == len(inside)
        assert (low, high) == (min(inside), max(inside))
        assert mean == pytest.approx(np.mean(inside))


def test_auto_takes_the_finest_that_fits(measured):
    service, times = measured
    span = {"since": START - 2 * HOUR, "until": START}
    assert service.samples(ALPHA, **span, most=len(times)).resolution_s == 0
    assert service.samples(ALPHA, **span, most=200).resolution_s == 60
    coarse = service.samples(ALPHA, **span, most=10)
    assert (coarse.resolution_s, coarse.truncated) == (1200.0, False)
    assert coarse.count.sum() == len(times)
    assert (np.diff(coarse.t) % 1200 == 0).all()


def test_longer_buckets_are_those_of_all_their_samples(measured, value):
    service, times = measured
    found = service.samples(ALPHA, since=START - 2 * HOUR, until=START, most=10)
    for t, mean, low, high in zip(found.t, found.value, found.low, found.high, strict=True):
        inside = [value(s) for s in times if t <= s < t + 1200]
        assert mean == pytest.approx(np.mean(inside))
        assert (low, high) == (min(inside), max(inside))


@recorded("nws/service/sample_problems.txt", "options")
def test_what_cannot_be_asked_is_refused(measured, answered, options):
    with pytest.raises(Refused) as caught:
        measured[0].samples(ALPHA, **options)
    answered(str(caught.value))


def test_series_nobody_knows(service):
    with pytest.raises(UnknownSeries, match="it has no measurements"):
        service.samples("cpu.new@nobody", since=0, until=1)
    with pytest.raises(Refused, match="unknown resource"):
        service.plot("cpu.old@nobody", since=0, until=1)


def test_plot_shows_what_was_expected_before_each_point(measured):
    service, times = measured
    plot = service.plot(ALPHA, since=times[0], until=times[100])
    assert plot.resolution_s == 0
    battery, error = BatteryBank(1), []
    for i, (t, value) in enumerate(zip(plot.t, plot.value, strict=True)):
        if i:
            forecast = battery.forecast(0)
            assert plot.forecast[i] == forecast.value
            assert plot.error[i] == forecast.mae or (i == 1 and np.isnan(plot.error[i]))
            error.append(abs(forecast.value - value))
        battery.update(0, value, t=t)
    assert battery.forecast(0).mae == pytest.approx(np.mean(error))
    assert plot.low.tolist() == plot.high.tolist() == plot.value.tolist()


def test_plot_learns_from_what_lies_before_it(measured):
    service, _ = measured
    plot = service.plot(ALPHA, since=START - 600, until=START)
    assert np.isfinite(plot.forecast).all()
    assert np.isfinite(plot.error).all()


def test_gaps_are_gaps(measured):
    service, times = measured
    plot = service.plot(ALPHA, since=START - 2 * HOUR, until=START, points=1000)
    (gap,) = np.flatnonzero(np.isnan(plot.value))
    assert plot.t[gap - 1] == START - 70 * 60 - 10
    assert plot.t[gap + 1] == START - 50 * 60
    assert plot.t[gap - 1] < plot.t[gap] < plot.t[gap + 1]
    assert np.isnan([plot.low[gap], plot.high[gap], plot.forecast[gap], plot.error[gap]]).all()
    assert len(plot.t) == len(times) + 1
    coarse = service.plot(ALPHA, since=START - 2 * HOUR, until=START, points=150)
    assert coarse.resolution_s == 60
    assert np.isnan(coarse.value).sum() == 1


def test_long_plot_is_drawn_from_buckets(measured):
    plot = measured[0].plot(ALPHA, since=START - 2 * HOUR, until=START, points=100)
    assert plot.resolution_s == 120
    assert len(plot.t) <= 102
    drawn = ~np.isnan(plot.value)
    assert (plot.low[drawn] <= plot.value[drawn]).all()
    assert (plot.value[drawn] <= plot.high[drawn]).all()
    assert (plot.low[drawn] < plot.high[drawn]).any()
    assert np.isfinite(plot.forecast[drawn][1:]).all()


def test_plot_of_a_time_without_measurements_is_empty(measured):
    plot = measured[0].plot(ALPHA, since=START + 10, until=START + 20)
    assert len(plot.t) == len(plot.forecast) == 0


def test_plot_of_one_point(service):
    service.put(batch((ALPHA, START, 0.5)), as_host=None)
    plot = service.plot(ALPHA, since=START - 10, until=START + 10)
    assert plot.value.tolist() == [0.5]
    assert np.isnan(plot.forecast).all()


@pytest.mark.parametrize("points", [1, 5001])
def test_plots_have_bounds(measured, points):
    with pytest.raises(Refused, match="legal are 2 to 5000"):
        measured[0].plot(ALPHA, since=0, until=1, points=points)


def test_what_another_program_wrote_does_not_break_a_plot(service, store):
    service.put(batch((ALPHA, START, 0.5)), as_host=None)
    with Memory(store) as other:
        other.append([Measurement(Series.parse(ALPHA), START + 1, 1e200)])
    assert service.plot(ALPHA, since=START, until=START + 10).value.tolist() == [0.5, 1e200]


def test_what_is_kept_as_buckets_only_is_shown_as_buckets(start, clock):
    service = start(settings(keep=Keep(samples_s=6 * HOUR, minutes_s=DAY, ten_minutes_s=30 * DAY)))
    times = START + 60.0 * np.arange(2 * 1440)
    clock.advance(2 * DAY)
    service.put(batch(*((ALPHA, t, 1.0) for t in times)), as_host=None)
    first_hours = {"since": START, "until": START + 3 * HOUR}
    assert service.plot(ALPHA, **first_hours, points=1000).resolution_s == 600
    later = {"since": START + 1.5 * DAY, "until": START + 1.6 * DAY}
    assert service.plot(ALPHA, **later, points=1000).resolution_s == 60
    newest = {"since": START + 1.9 * DAY, "until": START + 2 * DAY}
    assert service.plot(ALPHA, **newest, points=1000).resolution_s == 0


def test_samples_without_a_span_keep_their_detail(measured):
    service, times = measured
    found = service.samples(ALPHA, since=0, until=START)
    assert len(found.t) > 10, "two hours are more than one value"
    assert found.t[0] >= times[0] - 600
