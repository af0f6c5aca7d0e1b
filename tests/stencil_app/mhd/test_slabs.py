"""Slabs of any height give the same bits, on their way through restarts and other slabs too."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.stencil_app.mhd.conftest import Ranks, make
from tests.transcripts import text_of

HEIGHTS = st.lists(st.integers(3, 9), min_size=1, max_size=5)


@settings(deadline=None, max_examples=15)
@given(HEIGHTS, st.sampled_from(["periodic", "outflow", "reflecting"]))
def test_cut_of_a_blast_gives_the_same_bits(heights, boundary):
    field = 0.0 if boundary == "reflecting" else 1.0
    options = {"n": 6, "nz": sum(heights), "boundary": boundary, "radius": 0.2, "field": field}
    parts, whole = (
        Ranks([make("blast", **options) for _ in cut], cut).cycle(4).values()
        for cut in (tuple(heights), (sum(heights),))
    )
    assert (parts.view(np.uint64) == whole.view(np.uint64)).all()


def test_slabs_in_the_plane_are_lines(ranks):
    whole = ranks("orszag-tang", (20,), n=20).cycle(6).values()
    assert (ranks("orszag-tang", (3, 9, 8), n=20).cycle(6).values() == whole).all()


def test_real_ranks_restarts_and_moving_slabs_agree(mhd):
    words = ("blast", "--n", 20, "--nx", 8, "--ny", 8, "--radius", 0.3)
    line = mhd(0, *words, "--iterations", 24).stdout
    assert line.startswith("mhd blast 8x8x20: cycle 24, time 0.")
    moving = ("--reslab", "5:3,10,7;9:12,5,3;10:7,7,6", "--checkpoint", "run.ck", "--checkpoint-every", 7)
    first = mhd(3, *words, "--iterations", 16, *moving)
    assert first.returncode == 0, first.stderr
    resumed = mhd(5, *words, "--iterations", 24, "--restart", "run.ck", "--slabs", "3,6,3,4,4")
    assert resumed.stdout == line


def test_tube_along_the_slab_axis_over_three_ranks_is_the_one_along_x(mhd, tmp_path):
    for ranks, axis in ((0, "x"), (3, "z")):
        done = mhd(ranks, "ryu-jones", "--n", 24, "--axis", axis, "--courant", 0.4, "--out", f"{axis}.npz")
        assert done.returncode == 0, done.stderr
    x, z = (np.load(tmp_path / f"{axis}.npz") for axis in "xz")
    assert x["cycles"] == z["cycles"]
    assert x["rho"].shape == (1, 1, 24)
    assert z["rho"].shape == (24, 1, 1)
    for one, other in (("rho", "rho"), ("p", "p"), ("vx", "vz"), ("vy", "vx"), ("Bz", "By")):
        np.testing.assert_allclose(x[one].ravel(), z[other].ravel(), atol=1e-12)


def test_thinnest_slab_is_its_own_neighbour_and_between_others(mhd):
    words = ("blast", "--n", 6, "--iterations", 4)
    assert mhd(0, "blast", "--n", 6, "--nz", 3, "--iterations", 4).returncode == 0
    assert mhd(2, *words).stdout == mhd(0, *words).stdout != ""


def test_slabs_follow_a_file_while_the_run_goes_on(mhd, tmp_path):
    (tmp_path / "slabs").write_text("12,3\n")
    words = ("orszag-tang", "--n", 15, "--iterations", 14)
    done = mhd(2, *words, "--watch-slabs", "slabs", "--record-dir", "times")
    assert done.stdout == mhd(0, *words).stdout
    assert '"rows": 12' in (tmp_path / "times/rank-00000.json").read_text()
    (tmp_path / "slabs").write_text("14")
    done = mhd(0, *words, "--watch-slabs", "slabs")
    assert done.returncode == 0
    assert done.stderr == "slabs: 14: 14 rows together, the mesh has 15; the slabs stay as they are\n"


def test_run_killed_while_it_writes_goes_on_from_the_checkpoint_before(mhd, tmp_path):
    program = tmp_path / "killed.py"
    program.write_text(text_of("stencil_app/killed_while_writing.txt"))
    words = ["orszag-tang", "--n", "12", "--iterations", "12"]
    keep = ["--checkpoint", "run.ck", "--checkpoint-every", "5"]
    command = [sys.executable, str(program), "mhd", *words, *keep]
    killed = subprocess.run(command, cwd=tmp_path, timeout=100, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert "run.ck" in os.listdir(tmp_path)
    resumed = mhd(0, *words, "--restart", "run.ck")
    assert resumed.stdout == mhd(0, *words).stdout != ""


@pytest.mark.parametrize("slabbed", [True, False])
def test_memory_is_two_fields_and_a_bounded_workspace(problem, slabbed):
    mhd = problem("blast", n=16) if slabbed else problem("brio-wu", n=64)
    layout = mhd.layout
    per_row = layout.field_bytes(9) - layout.field_bytes(8)
    assert per_row == layout.plane_bytes
    assert layout.allocate(5).nbytes == layout.field_bytes(5)
    # 64 bytes a cell in each of the two fields, beside ghosts
    assert layout.plane_bytes == 64 * (layout.nx + 5) * (layout.ny + 2 * layout.gj + 1)
    assert mhd._planes.nbytes + mhd._lanes.nbytes == layout.scratch_bytes
