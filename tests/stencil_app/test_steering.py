"""Progress out and slabs in while a run goes on: the same bits, and nothing that somebody writes ends a run."""

import json
import os
import re
import subprocess
import time

import pytest

from stencil_app.mesh.decomposition import Decomposition, even
from stencil_app.mesh.slab import Slab
from stencil_app.running import mpi
from stencil_app.running.runsteering import CUT, NOTHING, REPORT, Places, Position, Steering, places
from stencil_app.running.runtime import Controls, StopRequest, begin, iterate
from stencil_app.running.timing import Stopwatch
from tests.stencil_app.conftest import command_line
from tests.transcripts import recorded


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def wait_for():
    def wait(what, within_s=60.0):
        deadline = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.02)

    return wait


@pytest.fixture
def steered(alone, heat):
    """A run of one rank with its steering, told to report after every iteration."""

    def make(**where):
        watch = Stopwatch(0.0)
        slab = Slab(heat(), even(6, 1), alone)
        return slab, watch, Steering(alone, Places(every_s=0.0, **where), watch)

    return make


def test_run_that_nobody_asks_wishes_nothing(steered):
    _, _, steering = steered()
    assert steering.wish() == NOTHING


def test_line_tells_what_happened_since_the_last(steered, tmp_path):
    path = tmp_path / "progress.jsonl"
    slab, watch, steering = steered(progress=path)
    controls = Controls(iterations=5, residual_every=0)
    iterate(slab, begin(slab, None), controls, watch=watch, stop=StopRequest(), steering=steering)
    told = lines(path)
    assert [line["iteration"] for line in told] == [1, 2, 3, 4, 5]
    assert [line["left"] for line in told] == [4, 3, 2, 1, 0]
    assert {line["iterations"] for line in told} == {1}
    assert [line["compute_s"] for line in told] == [[pytest.approx(s)] for s in watch.compute]
    assert told[0] | {"compute_s": 0, "exchange_s": 0, "reduce_s": 0, "seconds": 0} == {
        "version": 1,
        "iteration": 1,
        "left": 4.0,
        "iterations": 1,
        "seconds": 0,
        "rows": [6],
        "compute_s": 0,
        "exchange_s": 0,
        "reduce_s": 0,
        "moves": 0,
        "moved_s": None,
        "refused": None,
    }


def test_run_that_ends_by_its_own_time_guesses_how_much_is_left(steered, tmp_path):
    path = tmp_path / "progress.jsonl"
    slab, watch, steering = steered(progress=path)
    step = slab.problem.step
    controls = Controls(iterations=2**62, until=4.5 * step, residual_every=0)
    iterate(slab, begin(slab, None), controls, watch=watch, stop=StopRequest(), steering=steering)
    assert [round(line["left"], 6) for line in lines(path)] == [3.5, 2.5, 1.5, 0.5, 0.0]


def test_slabs_are_offered_once(steered, tmp_path):
    path = tmp_path / "slabs"
    slab, _, steering = steered(slabs=path)
    steering._looked_at = 0.0
    assert steering.wish() == NOTHING  # no such file yet
    path.write_text("6")
    steering._looked_at = 0.0
    assert steering.wish() == CUT
    assert steering.offered(slab) is None  # these are the slabs there are
    steering._looked_at = 0.0
    assert steering.wish() == NOTHING


@recorded("stencil_app/steering_problems.txt", "text")
def test_slabs_that_cannot_be_are_refused_with_a_reason(steered, tmp_path, capsys, answered, text):
    path, progress = tmp_path / "slabs", tmp_path / "progress.jsonl"
    slab, _, steering = steered(slabs=path, progress=progress)
    path.write_text(text)
    steering._looked_at = 0.0
    assert steering.wish() == REPORT | CUT
    assert steering.offered(slab) is None
    error = capsys.readouterr().err
    answered(error.replace(f"{tmp_path}/", ""))
    for _ in range(2):
        steering.report(slab, Position(iteration=0, left=None))
    reason, after = (line["refused"] for line in lines(progress))
    assert (error, after) == (f"{path}: {reason}; the slabs stay as they are\n", None)


def test_slabs_that_no_memory_is_free_for_are_refused(alone, heat, tmp_path, monkeypatch, capsys):
    import psutil

    class Full:
        available = 0

    problem = heat(size=1)
    steering = Steering(alone, Places(slabs=tmp_path / "slabs"), Stopwatch(0.0))
    slab = Slab(problem, even(1, 1), alone)
    problem.size = 2  # as if a neighbour had held the other row
    monkeypatch.setattr(psutil, "virtual_memory", Full)
    steering._offer = "2"
    assert steering.offered(slab) is None
    assert "2: " in (said := capsys.readouterr().err)
    assert "1 rank(s) need 0.00 GiB, 0.00 GiB are free; the slabs stay as they are" in said
    assert mpi.shortage(alone, 0) is None


def test_full_disk_ends_the_telling_not_the_run(steered, tmp_path, capsys):
    path = tmp_path / "gone" / "progress.jsonl"
    slab, watch, steering = steered(progress=path)
    controls = Controls(iterations=3, residual_every=0)
    iterate(slab, begin(slab, None), controls, watch=watch, stop=StopRequest(), steering=steering)
    said = capsys.readouterr().err
    assert said == f"{path}: progress is not told any more: No such file or directory\n"


def test_environment_names_places_where_the_command_line_does_not(tmp_path):
    told = {
        "STENCIL_APP_PROGRESS": "p",
        "STENCIL_APP_SLABS": "s",
        "STENCIL_APP_REPORT_EVERY": "0.5",
    }
    found = places(None, tmp_path, told)
    assert (str(found.progress), found.slabs, found.every_s) == ("p", tmp_path, 0.5)
    assert places(None, None, {}) == Places()
    assert places(None, None, {"STENCIL_APP_REPORT_EVERY": "often"}).every_s == 1.0


@pytest.mark.parametrize(
    "words",
    [
        ("heat", "--size", 24, "--nx", 64, "--ny", 64, "--sweeps", 8),
        pytest.param(("jacobi2d", "--size", 24, "--nx", 4000), marks=pytest.mark.nightly),
        ("mhd", "blast", "--n", 24, "--until", 9),
    ],
    ids=lambda words: words[0],
)
def test_rows_move_while_the_run_goes_on_and_no_bit_changes(stencil_app, tmp_path, wait_for, words):
    slabs, progress = tmp_path / "slabs", tmp_path / "progress.jsonl"
    steered = ("--iterations", 10**6, "--watch-slabs", "slabs", "--progress", "progress.jsonl")
    with subprocess.Popen(
        command_line(2, (*words, *steered)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STENCIL_APP_REPORT_EVERY": "0.05"},
    ) as run:
        wait_for(lambda: progress.exists() and lines(progress))
        slabs.write_text("16,8")
        wait_for(lambda: lines(progress)[-1]["rows"] == [16, 8])
        slabs.write_text("20,5")
        wait_for(lambda: any(line["refused"] for line in lines(progress)))
        slabs.write_text("9,15")
        wait_for(lambda: lines(progress)[-1]["rows"] == [9, 15])
        run.terminate()
        out, err = run.communicate(timeout=60)
    assert "20,5: 25 rows together, the mesh has 24; the slabs stay as they are" in err
    told = lines(progress)
    assert list(dict.fromkeys(tuple(line["rows"]) for line in told)) == [(12, 12), (16, 8), (9, 15)]
    assert sum(line["moved_s"] is not None for line in told) == 2
    assert told[-1]["moves"] == 2
    done = re.search(r"(?:iteration|cycle) (\d+)", out)
    unmoved = stencil_app(0, *words, "--iterations", done[1])
    assert unmoved.stdout.split("checksum")[1] == out.split("checksum")[1]


def test_move_gives_the_second_buffer_back_first(alone, heat):
    """What both ranks hold while rows move is two fields at most, not four."""
    slab = Slab(heat(), even(6, 1), alone)
    begin(slab, None)
    before = slab.checksum()
    slab.rearrange(Decomposition((6,)))
    assert slab.checksum() == before
    assert slab.other.shape == slab.field.shape
