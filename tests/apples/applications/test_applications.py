"""The files of heat and jacobi2d against the programs they describe: what they claim is what these do."""

import json
import subprocess
from pathlib import Path

import pytest

from apples.applications import get, names
from apples.errors import ConfigError
from apples.model.grid import Host
from apples.model.template import BenchmarkRequest, Checkpointing
from apples.platforms.shortruns import own_benchmark
from apples.testing import finished
from nws.base.program import OWN_PYTHON
from stencil_app.heat import HEAT
from stencil_app.jacobi2d import JACOBI2D
from stencil_app.settings import ITERATIONS, RESIDUAL_EVERY, SWEEPS
from tests.apples.applications.optiontables import assert_options_match


class Mpiless:
    """Runs one rank without MPI. text : of a result instead of the benchmark's, None for none"""

    several_hosts = False

    def __init__(self, directory, *text):
        self._directory, self._text = directory, text

    def run(self, request, notify):
        words = list(request.command)
        (self._directory / "rows").write_text(words[words.index("--rows") + 1])
        if not self._text:
            assert run(words, self._directory).returncode == 0
        elif self._text[0] is not None:
            Path(words[words.index("--benchmark") + 1]).write_text(self._text[0])
        return finished(60.0)


SMALL = {"heat": {"nx": "12", "ny": "7"}, "jacobi2d": {"nx": "30"}}


@pytest.fixture(params=sorted(SMALL))
def application(request):
    return get(request.param), SMALL[request.param]


def run(command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def test_unknown_application_is_answered_with_the_known_ones():
    assert names() == ("mhd3d", "heat", "jacobi2d")
    with pytest.raises(ConfigError, match="unknown application 'mhd9d'; legal are mhd3d, heat, jacobi2d"):
        get("mhd9d")


def test_bad_option_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        get("heat").check({"nx": "0", "nz": "3", "boundary": "open", "checkpoint_every": "2"})
    assert caught.value.problems == (
        "heat: unknown option 'nz'; legal are iterations, nx, ny, boundary, initial, courant, "
        "residual_every, sweeps, output, checkpoint_every, checkpoint",
        "heat: option nx: got '0'; legal is a whole number at least 1 (default 256)",
        "heat: option boundary: got 'open'; legal is one of fixed, periodic, insulated (default fixed)",
        "heat: option checkpoint_every: needs checkpoint=FILE, where to write to",
    )


def test_good_options_pass():
    get("jacobi2d").check({"nx": "9", "initial": "random", "iterations": "3", "output": "f.npy"})


def test_messages_and_memory_are_those_of_ghost_planes(application):
    template, options = application
    workload = template.workload(10, {**options, "iterations": "40"})
    cells = {"heat": (7 + 2) * 16, "jacobi2d": 32}[template.name]
    assert (workload.size, workload.iterations, workload.messages) == (10, 40, 40)
    assert workload.bytes_exchanged == 40 * 8 * cells
    assert workload.bytes_per_row == 2 * 8 * cells
    assert workload.min_rows == 1
    assert workload.bytes_fixed > 1e8


def test_run_leaves_what_the_template_reads(application, tmp_path):
    template, options = application
    options = {**options, "iterations": "20", "residual_every": "7", "output": str(tmp_path / "f.npy")}
    template.check(options)
    run_dir = tmp_path / "run"
    done = run(template.start([5], run_dir, options).command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "iteration 20" in done.stdout
    (seen,) = template.records(run_dir)
    assert (seen.rank, seen.rows, seen.iterations) == (0, 5, 20)
    assert 0 < seen.compute_s + seen.communicate_s + seen.wait_s + seen.setup_s <= seen.total_s
    assert (tmp_path / "f.npy").exists()


def test_benchmark_is_read_back(application, tmp_path):
    template, options = application
    request = BenchmarkRequest(
        template=template, options=options, host=Host(name="here"), ranks=1, rows=16384
    )
    benchmark = own_benchmark(Mpiless(tmp_path), request, template.benchmark)
    assert benchmark.ranks == 1
    assert 0 < benchmark.seconds_per_row < 1e-3
    assert 0 < benchmark.startup_s < 60.0
    assert (tmp_path / "rows").read_text() == "16384"
    assert benchmark.bytes_per_row == pytest.approx(template.workload(1, options).bytes_per_row, rel=0.1)


@pytest.mark.parametrize("text", [None, "", "[]", '{"ranks": 1}', '{"ranks": 1, "seconds_per_row": "x"}'])
def test_unreadable_benchmark_names_its_command(tmp_path, text):
    request = BenchmarkRequest(template=get("heat"), options={}, host=Host(name="here"), ranks=1, rows=7)
    with pytest.raises(ConfigError, match=r"b.*\.json: no readable benchmark of heat .* heat --benchmark"):
        own_benchmark(Mpiless(tmp_path, text), request, get("heat").benchmark)


def test_ranks_without_a_readable_record_are_missing(tmp_path):
    times = {"setup_s": 0.5, "compute_s": 1, "exchange_s": 0.1, "reduce_s": 0.2, "total_s": 2.0}
    good = {"rank": 2, "host": "a", "rows": 4, "iterations": 5, **times}
    (tmp_path / "rank-00002.json").write_text(json.dumps(good))
    (tmp_path / "rank-00000.json").write_text('{"rank": 0, "host"')
    (tmp_path / "rank-00001.json").write_text('{"rank": 1}')
    (seen,) = get("heat").records(tmp_path)
    assert (seen.rank, seen.communicate_s, seen.wait_s) == (2, 0.1, 0.2)
    assert get("heat").records(tmp_path / "nowhere") == ()


def test_modules_in_the_working_directory_are_not_used(tmp_path):
    for name in ("stencil_app", "numpy", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    command = get("heat").start([4], tmp_path, {"nx": "8", "iterations": "2"}).command
    done = run(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_command_uses_this_interpreter_and_the_users_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    heat, options = get("heat"), {"nx": "8", "output": "f.npy"}
    command = heat.start([2, 3], Path("/runs/1"), options).command
    assert command[:5] == (*OWN_PYTHON, "-m", "stencil_app", "heat")
    assert command[5:11] == ("--slabs", "2,3", "--record-dir", "/runs/1", "--nx", "8")
    assert command[-2:] == ("--output", str(tmp_path / "f.npy"))
    keep = Checkpointing(file=Path("/a.ck"), every=3, restart=True)
    kept = heat.start([2, 3], Path("/runs/1"), {"checkpoint_every": "9"}, keep=keep).command
    assert kept[-6:] == ("--checkpoint", "/a.ck", "--checkpoint-every", "3", "--restart", "/a.ck")
    benchmark = heat.benchmark(Path("b.json"), {"residual_every": "5", "output": "f.npy"}, 4).command
    assert benchmark[5:9] == ("--benchmark", "b.json", "--rows", "4")
    assert benchmark[-4:-2] == ("--residual-every", "5")
    assert "f.npy" not in benchmark


@pytest.mark.parametrize(("name", "options"), [("heat", HEAT.options), ("jacobi2d", JACOBI2D.options)])
def test_options_are_those_of_the_program(name, options):
    assert_options_match(name, [*options, ITERATIONS, RESIDUAL_EVERY, SWEEPS])
