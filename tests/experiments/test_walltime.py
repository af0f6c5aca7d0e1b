"""W1-W9 on made-up logs of two machines: what the rows are, and that histories come from earlier ends only."""

import gzip

import numpy as np
import pytest

from apples.errors import ConfigError
from apples_experiments import catalogue, walltime_logs, walltime_months
from apples_experiments.lublin import generate
from apples_experiments.walltime_logs import Log, load_log, load_settings, past_ratios

IDS = [f"W{number}" for number in range(1, 10)]


def write_log(path, seed, processors):
    """100 days of 1,500 jobs of six users, who use a half, a third … of what they ask for, some less."""
    trace = generate(1500, processors, seed)
    chance = np.random.default_rng(seed)
    scale = 100 * 86400 / float(trace.submit[-1])
    lines = [f"; MaxProcs: {processors}"]
    for i in range(len(trace)):
        user = int(chance.integers(6))
        run = min(trace.run[i], 20_000)
        request = 3600 * np.ceil(run * (user + 2) / (1 if chance.random() < 0.8 else 0.3) / 3600)
        lines.append(
            f"{i + 1} {trace.submit[i] * scale:.0f} 30 {run:.0f} {trace.procs[i]} -1 -1 -1 "
            f"{request:.0f} -1 1 {user} {user % 3} -1 -1 -1 -1 -1"
        )
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "swf").mkdir()
    for seed, log in enumerate(load_settings().logs):
        write_log(folder / "swf" / log.file, seed, 16)
    return folder


@pytest.fixture(autouse=True)
def nothing_kept():
    """What was read of other logs is forgotten before and after."""
    kept = (load_log, past_ratios, walltime_months._months)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


@pytest.fixture
def run(logs, monkeypatch):
    monkeypatch.setenv("APPLES_DATA", str(logs))
    small = walltime_logs.TangSettings(
        **{
            **{name: getattr(load_settings(), name) for name in load_settings().__slots__},
            "logs": tuple(Log(name=log.name, file=log.file, processors=12) for log in load_settings().logs),
        }
    )
    for module in ("walltime_logs", "walltime_accuracy", "walltime_months"):
        monkeypatch.setattr(f"apples_experiments.{module}.load_settings", lambda: small)

    said = []
    return lambda name: catalogue.run(name, said.append)


@pytest.mark.parametrize("name", IDS)
def test_row_has_both_logs_and_the_papers_figure_where_it_has_one(run, name):
    result = run(name)
    assert {row.name.split(":")[0].split(" p")[0].strip() for row in result.rows} == {"CEA-Curie", "RICC"}
    assert any(row.paper is not None for row in result.rows) or name in ("W5", "W8")
    assert all(np.isfinite(row.ours) for row in result.rows)
    assert result.figure.curves
    assert any("Intrepid" in note for note in result.notes)
    assert result.as_json()["constants"]


def test_adjusting_is_nearer_to_the_truth_than_requests(run):
    rows = {row.name: row.ours for row in run("W3").rows}
    assert rows["CEA-Curie: user, p70"] > rows["CEA-Curie: requests"]
    assert rows["CEA-Curie: triple, p100"] <= rows["CEA-Curie: triple, p70"]


def test_shares_add_up(run):
    rows = run("W4").rows
    for four in zip(*[iter(rows)] * 4, strict=True):
        not_adjusted, over, under, bad = (row.ours for row in four)
        assert not_adjusted + over + under == pytest.approx(1)
        assert bad <= under


def test_gains_and_losses_by_month(run):
    result = run("W7")
    months = result.further["months"]
    before, after = months["RICC not adjusted"], months["RICC p85"]
    assert list(before) == list(after) == ["1", "2"]
    gains = [100 * (1 - after[m]["wait"] / before[m]["wait"]) for m in before if before[m]["wait"]]
    row = next(row for row in result.rows if row.name == "RICC p85: wait, gain")
    assert row.ours == pytest.approx(np.mean(gains))
    assert row.paper == 22.0


def test_month_learns_only_from_what_had_ended(run, logs):
    log = load_settings().logs[0]
    ratios = past_ratios(log, "all", float("inf"), (0.0, 100.0), lambda text: None)
    trace = load_log(log)
    for index in (5, 300, 1400):
        ended = trace.log_end <= trace.submit[index]
        used = np.minimum(trace.run[ended] / trace.request[ended], 1.0)
        if len(used) < load_settings().minimum:
            assert np.isnan(ratios[index]).all()
        else:
            assert ratios[index].tolist() == [used.min(), used.max()]


def test_without_the_logs_it_says_where_to_get_them(monkeypatch, tmp_path):
    for value in (None, str(tmp_path)):
        if value is None:
            monkeypatch.delenv("APPLES_DATA", raising=False)
        else:
            monkeypatch.setenv("APPLES_DATA", value)
        with pytest.raises(ConfigError, match="Parallel Workloads Archive, put it into a folder `swf`"):
            catalogue.run("W1", lambda text: None)
