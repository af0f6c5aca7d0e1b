"""`nws score`: the figures, the document, and what a user reads when the file is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nws.base.errors import UsageError
from nws.cli.score import score
from nws.forecasting.accuracy import NOT_SCORED, score_series
from nws.forecasting.horizonscore import score_horizons
from nws.forecasting.statelayout import METHODS
from nws.sources.csvfile import read_columns
from tests.transcripts import recorded

DATA = Path(os.environ.get("APPLES_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data") / "series"


@pytest.fixture
def measurements(tmp_path):
    """A file of a noisy wave and of a walk, 200 samples each."""
    rng = np.random.default_rng(5)
    wave = np.sin(np.arange(200) / 2) + 0.1 * rng.standard_normal(200)
    walk = np.cumsum(rng.standard_normal(200))
    path = tmp_path / "two.csv"
    rows = [
        f"wave,{t},{a!r}\nwalk,{t},{b!r}"
        for t, (a, b) in enumerate(zip(wave.tolist(), walk.tolist(), strict=True))
    ]
    path.write_text("\n".join(["series,t,value", *rows]) + "\n")
    return path


def test_document_has_the_keys_that_were_promised(measurements):
    result = CliRunner().invoke(score, [str(measurements), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["file"] == str(measurements)
    assert (document["series"], document["samples"], document["scored"]) == (2, 400, 400 - 2 * NOT_SCORED)
    for errors in (
        document["battery"]["mae_pick"],
        document["battery"]["mse_pick"],
        document["last_value"],
        document["best_in_hindsight"],
    ):
        assert 0 < errors["mae"] <= errors["rmse"]
    saved = 1 - document["battery"]["mae_pick"]["mae"] / document["last_value"]["mae"]
    assert document["improvement_over_last_value"] == pytest.approx(saved)
    assert "methods" not in document


def test_methods_are_printed_on_request(measurements):
    runner = CliRunner()
    document = json.loads(runner.invoke(score, [str(measurements), "--json", "--methods"]).stdout)
    assert list(document["methods"]) == list(METHODS)
    assert document["methods"]["last"] == document["last_value"]
    table = runner.invoke(score, [str(measurements), "-v"]).stdout
    assert "trimmed_31" in table
    assert "trimmed_31" not in runner.invoke(score, [str(measurements)]).stdout


def test_table_says_how_much_was_gained(measurements):
    table = CliRunner().invoke(score, [str(measurements)]).stdout
    assert "2 series, 400 samples, 360 scored" in table
    assert "best in hindsight" in table
    assert "% below last value" in table


def test_last_value_and_hindsight_are_what_their_names_say():
    values = [float(v) for v in np.random.default_rng(8).integers(0, 9, 120)]
    result = score_series({"a": values}, source="here")
    steps = np.abs(np.diff(values))[NOT_SCORED - 1 :]
    assert result.last_value.mae == pytest.approx(steps.mean())
    assert result.last_value.rmse == pytest.approx(np.sqrt(np.square(steps).mean()))
    assert result.best_in_hindsight.mae == min(m.mae for m in result.methods.values())
    assert result.best_in_hindsight.rmse == min(m.rmse for m in result.methods.values())


def test_series_counts_alike_and_short_ones_do_not_count():
    calm, wild = [1.0] * 1000, [float(i % 2) for i in range(40)]
    result = score_series({"calm": calm, "wild": wild, "short": [1.0] * NOT_SCORED}, source="here")
    assert (result.series, result.skipped, result.samples) == (2, 1, 1040)
    assert result.last_value.mae == 0.5


def test_series_that_never_changes_leaves_nothing_to_gain():
    result = score_series({"a": [2.0] * 50}, source="here")
    assert result.mae_pick.mae == 0.0
    assert result.improvement_over_last_value == 0.0


@recorded("nws/score_problems.txt", "values")
def test_what_cannot_be_scored_is_refused(answered, values):
    with pytest.raises(UsageError) as caught:
        score_series({"a": values}, source="here")
    answered(str(caught.value))


def test_wrong_file_is_answered_with_its_lines_and_exit_code_2(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("series,t,value\na,5,1\na,6,x\na,0,2\n")
    result = CliRunner().invoke(score, [str(path), "--json"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{path}:3: value 'x': expected a finite number up to ±1e+120",
    ]


@pytest.mark.parametrize(
    ("name", "least"), [("nab_ec2_cpu_avail_5min.csv.gz", 0.18), ("seattle_rtt_every6_s.csv.gz", 0.16)]
)
def test_on_real_measurements_the_battery_beats_last_value(name, least):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"reference series {name} not there; set APPLES_DATA to its parent directory")
    result = score_series(read_columns(str(path)).values_by_series(), source=str(path))
    assert result.improvement_over_last_value >= least
    assert result.mse_pick.rmse < result.last_value.rmse


def test_horizons_judge_means_of_the_next_values(measurements):
    result = CliRunner().invoke(score, [str(measurements), "--json", "--horizons", "10,1,10"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    one, ten = document["horizons"]
    assert (one["k"], ten["k"]) == (1, 10)
    # one step ahead the forecast is the battery's own
    assert one["mae"] == pytest.approx(document["battery"]["mae_pick"]["mae"])
    assert one["mae_last"] == pytest.approx(document["last_value"]["mae"])
    for row in (one, ten):
        assert row["mae_hindsight"] <= min(row["mae_last"], row["mae_mean_k"], row["mae_reference"])
        assert 0 <= row["coverage_p10"] <= row["coverage"] <= row["coverage_p90"] <= 1
        assert row["winkler"] >= row["width"] > 0


def test_horizons_score_equals_a_direct_computation():
    rng = np.random.default_rng(8)
    value = 1.0 + 0.1 * np.cumsum(rng.standard_normal(60))
    (row,) = score_horizons({"walk": value}, [5], source="here")
    at = range(NOT_SCORED - 1, len(value) - 5)
    outcomes = [value[i + 1 : i + 6].mean() for i in at]
    last = np.mean([abs(value[i] - outcome) for i, outcome in zip(at, outcomes, strict=True)])
    window = np.mean([abs(value[i - 4 : i + 1].mean() - y) for i, y in zip(at, outcomes, strict=True)])
    assert (row.mae_last, row.mae_mean_k) == (pytest.approx(last), pytest.approx(window))


def test_horizon_longer_than_every_series_is_refused(measurements):
    result = CliRunner().invoke(score, [str(measurements), "--horizons", "180"])
    assert result.exit_code == 2
    assert "name shorter horizons" in result.stderr
    assert CliRunner().invoke(score, [str(measurements), "--horizons", "0"]).exit_code == 2
