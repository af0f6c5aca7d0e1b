"""What our own sensors recorded under a real mixed load: complete, plausible, forecast better than by last value."""

from __future__ import annotations

import csv
import gzip
import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from nws.forecasting.accuracy import score_series
from nws.series import Resource, Series
from nws.sources.csvfile import read_columns

RECORDINGS = ("own_sensors_10s.csv.gz", "own_sensors_10s_later.csv.gz")
PERIOD_S = 10.0
#: Sensors of a host without a quota measure everything but the loss of links, which runs over ssh measure.
RECORDED = set(Resource) - {Resource.LOSS, Resource.CPU_LIMIT}


@pytest.fixture(scope="module", params=RECORDINGS)
def recording(request):
    return Path(__file__).parent / "data" / request.param


@pytest.fixture(scope="module")
def recorded(recording):
    """Series → [(t, value), …] of the recording."""
    found = {}
    with gzip.open(recording, "rt", newline="") as lines:
        for name, t, value in list(csv.reader(lines))[1:]:
            found.setdefault(Series.parse(name), []).append((float(t), float(value)))
    return found


def test_resource_was_recorded_for_more_than_half_an_hour(recorded):
    assert {series.resource for series in recorded} == RECORDED
    for samples in recorded.values():
        assert samples[-1][0] - samples[0][0] >= 30 * 60


def test_no_series_has_gaps_that_another_has_not(recorded):
    counts = {len(samples) for samples in recorded.values()}
    assert len(counts) == 1


def test_period_was_kept(recorded):
    for samples in recorded.values():
        steps = [b - a for (a, _), (b, _) in pairwise(samples)]
        assert min(steps) > 0
        assert statistics.median(steps) == pytest.approx(PERIOD_S, abs=0.5)
        assert len(samples) >= 0.9 * (samples[-1][0] - samples[0][0]) / PERIOD_S


def test_values_are_what_their_series_can_have(recorded):
    for series, samples in recorded.items():
        values = [value for _, value in samples]
        assert min(values) >= 0
        if series.resource in (Resource.CPU_NEW, Resource.CPU_RUNNING):
            assert max(values) <= 1
            # it was a mixed load: neither always idle nor always full
            assert statistics.pstdev(values) > 0.02


def test_battery_beats_last_value_by_both_errors(recording):
    result = score_series(read_columns(str(recording)).values_by_series(), source=str(recording))
    assert (result.series, result.skipped) == (len(RECORDED), 0)
    assert result.mae_pick.mae < result.last_value.mae
    assert result.mse_pick.rmse < result.last_value.rmse


def test_on_no_series_is_it_far_from_last_value(recorded):
    # means over series in different units are those of the largest numbers, which are bytes
    for series, samples in recorded.items():
        result = score_series({str(series): [v for _, v in samples]}, source=str(series))
        assert result.mae_pick.mae <= 1.04 * result.last_value.mae
        assert result.mse_pick.rmse <= 1.04 * result.last_value.rmse
        if series.is_pair:
            assert result.mae_pick.mae < 0.95 * result.last_value.mae
