"""Grid files: hosts, links and what is known of applications; every problem with file and line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.model.config import find_config
from apples.model.grid import Snapshot
from apples.model.gridfile import load_grid, load_grid_file
from apples.model.template import PAPER_OVERHEAD
from tests.transcripts import recorded


@recorded("apples/model/gridfiles.txt", "text")
def test_grid_file_gives_what_is_recorded(tmp_path, monkeypatch, answered, text):
    monkeypatch.chdir(tmp_path)
    Path("grid.yaml").write_text(text)
    try:
        file = load_grid_file("grid.yaml")
    except ConfigError as refusal:
        answered([f"exit code {refusal.exit_code}", *refusal.problems])
        return
    lines = [f"{file.grid.name} of {file.grid.source}", *map(str, file.grid.hosts)]
    latency, bandwidth, _ = file.grid.nominal_links()
    for name, values in (("s", latency), ("B/s", bandwidth)):
        lines += [" ".join(f"{value:.4g}" for value in row) + f" {name}" for row in np.asarray(values)]
    for name, known in file.applications.items():
        lines += [f"{name}: {known.costs}", str(file.workload(name, 500))]
    answered(lines)
    assert file.workload("unknown", 5) is None


@pytest.mark.parametrize("name", ["centurion", "local", "two-sites"])
def test_shipped_grids_load_and_make_a_snapshot(name):
    grid = load_grid(find_config(name))
    snapshot = Snapshot.nominal(grid)
    assert len(snapshot.hosts) == {"centurion": 34, "local": 2, "two-sites": 8}[name]
    assert np.all(np.asarray(snapshot.latency_s) > 0)


def test_centurion_states_the_papers_overhead_and_array_limit():
    file = load_grid_file(find_config("centurion"))
    stated = file.applications["pmhd3d"].overhead
    assert replace(stated, source="") == replace(PAPER_OVERHEAD, source="")
    assert "section 3.1" in stated.source
    workload = file.workload("pmhd3d", 1000)
    assert workload is not None
    assert workload.max_rows == 507
    assert workload.bytes_fixed + 507 * workload.bytes_per_row < 256e6
