"""The template of magnetohydrodynamics against the program that it describes."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from apples.applications import get
from apples.errors import ConfigError
from nws.base.program import OWN_PYTHON
from nws.base.residentmemory import resident_bytes
from stencil_app.mhd.case import COMMON
from stencil_app.mhd.problems import blast
from stencil_app.mhd.settings import HISTORY_EVERY
from tests.apples.applications.optiontables import assert_options_match

SMALL = {"nx": "10", "ny": "8", "radius": "0.3"}


@pytest.fixture
def mhd3d():
    return get("mhd3d")


@pytest.fixture(scope="session")
def alone():
    """A world of one rank, in this process. MPI starts once, with handlers that Python does not know of."""
    from stencil_app.running.mpi import world

    alone = world()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    return alone


def run(command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_options_are_those_of_the_blast_but_its_size(mhd3d):
    mhd3d.check({"ratio": "50", "boundary": "outflow", "iterations": "7", "out": "f.npz", "history": "h.csv"})
    with pytest.raises(ConfigError) as caught:
        mhd3d.check({"n": "64", "nx": "3", "courant": "2", "checkpoint_every": "9"})
    assert caught.value.problems == (
        "mhd3d: unknown option 'n' (did you mean ny?); legal are iterations, nx, ny, radius, pressure, ratio, field, "
        "boundary, courant, history_every, history, out, checkpoint_every, checkpoint",
        "mhd3d: option nx: got '3'; legal is a whole number at least 4 (default 64)",
        "mhd3d: option courant: got '2'; legal is a number above 0 and at most 0.5 (default 0.3)",
        "mhd3d: option checkpoint_every: needs checkpoint=FILE, where to write to",
    )


def test_what_it_claims_of_messages_is_what_the_mesh_says(mhd3d):
    workload = mhd3d.workload(30, {**SMALL, "iterations": "12"})
    plane = 8 * 8 * (8 + 5) * (10 + 5)
    assert (workload.size, workload.iterations, workload.messages) == (30, 12, 12)
    # three planes, and the field across the slab of a fourth
    assert workload.bytes_exchanged == 12 * (3 * plane + plane // 8)
    assert workload.bytes_per_row == 2 * plane
    assert workload.min_rows == 3


def test_cell_takes_128_bytes_beside_ghosts_and_scratch(mhd3d):
    """Of a cube of 64: 149 bytes a cell for both fields with their ghosts, 27 more for scratch and ghost planes."""
    workload = mhd3d.workload(64, {})
    cells = 64 * 64
    assert workload.bytes_per_row / cells == pytest.approx(128 * (69 / 64) ** 2)
    beside = workload.bytes_fixed - mhd3d.workload(64, {"nx": "4", "ny": "4"}).bytes_fixed
    assert 27 < beside / 64**3 < 28


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_slab_really_takes_what_is_claimed(mhd3d, alone):
    from stencil_app.mesh.decomposition import even
    from stencil_app.mesh.slab import Slab
    from stencil_app.mhd.case import entry
    from stencil_app.mhd.equations import MhdProblem
    from stencil_app.options import parse_all
    from stencil_app.running.runtime import Controls, StopRequest, begin, iterate
    from stencil_app.running.timing import Stopwatch

    blast = entry("blast")

    def advance(nx, rows):
        values, _ = parse_all(blast.options, {"nx": str(nx), "ny": str(nx), "nz": str(rows)})
        slab = Slab(MhdProblem(blast.make(values), values), even(rows, 1), alone)
        state = begin(slab, None)
        controls = Controls(iterations=1, residual_every=0)
        iterate(slab, state, controls, watch=Stopwatch(0.0), stop=StopRequest())
        return slab

    advance(8, 8)
    before = resident_bytes()
    kept = advance(96, 24)
    taken = resident_bytes() - before
    options = {"nx": "96", "ny": "96"}
    claim = mhd3d.workload(24, options)
    none = mhd3d.workload(24, {"nx": "4", "ny": "4"})
    stated = 24 * claim.bytes_per_row + claim.bytes_fixed - none.bytes_fixed
    assert taken == pytest.approx(stated, rel=0.15)
    assert kept.rows == 24


def test_run_leaves_what_the_template_reads(mhd3d, tmp_path):
    options = {**SMALL, "iterations": "5", "out": str(tmp_path / "f.npz")}
    run_dir = tmp_path / "run"
    done = run(mhd3d.start([9], run_dir, options).command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mhd blast 10x8x9: cycle 5, time 0.")
    (seen,) = mhd3d.records(run_dir)
    assert (seen.rank, seen.rows, seen.iterations) == (0, 9, 5)
    assert (tmp_path / "f.npz").exists()


def test_benchmark_is_read_back(mhd3d, tmp_path):
    output = tmp_path / "b.json"
    # a slab thinner than any can be is measured as the thinnest
    done = run(mhd3d.benchmark(output, {"nx": "24", "ny": "24"}, 2).command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(output.read_text())
    assert (found["rows"], found["application"], found["parameters"]["nz"]) == (3, "mhd", 3)
    assert 0 < found["seconds_per_row"] < 1.0


def test_commands_name_a_mesh_of_their_own_and_cycles_only(mhd3d):
    command = mhd3d.start([40, 24], Path("/runs/1"), {"ny": "48", "ratio": "9"}).command
    assert command[:6] == (*OWN_PYTHON, "-m", "stencil_app", "mhd", "blast")
    assert command[6:10] == ("--slabs", "40,24", "--record-dir", "/runs/1")
    assert command[10:16] == ("--nx", "64", "--ny", "48", "--nz", "64")
    assert command[-4:] == ("--iterations", "100", "--until", "1e30")
    benchmark = mhd3d.benchmark(Path("b.json"), {"iterations": "9"}, 16).command
    assert benchmark[6:12] == ("--benchmark", "b.json", "--rows", "16", "--nx", "64")
    assert mhd3d.warm[-3:] == ("warm", "--say", "mhd")


def test_options_have_the_bounds_of_the_program(mhd3d):
    options = [o for o in (*blast.OPTIONS, *COMMON, HISTORY_EVERY) if o.name not in ("n", "nx", "ny", "nz")]
    assert_options_match("mhd3d", options)
