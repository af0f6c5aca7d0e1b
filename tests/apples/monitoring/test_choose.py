"""The choice among ways to wait, in C, over given times of iterations: no rank runs."""

import subprocess

import pytest

from apples.monitoring.build import SOURCES, compiler
from apples.monitoring.names import WAYS
from tests.apples.monitoring.conftest import PROGRAMS

MPI, YIELD, PATIENT, BLOCK = range(len(WAYS))
ALL = 0b1111
#: Milliseconds of an iteration by way: alone, and beside other processes.
ALONE, BESIDE = (0.2, 0.3, 0.2, 0.5), (5.0, 3.0, 4.0, 0.8)
EVEN, BAD = (1, 1, 1, 1), (20, 20, 1, 20)


@pytest.fixture(scope="module")
def choices(tmp_path_factory, built_once):
    """Runs `programs/choices.c`; returns iterations, the best way and the time of each way as a multiple of its own."""
    program, source = tmp_path_factory.mktemp("choose") / "choices", PROGRAMS / "choices.c"
    subprocess.run([*compiler(), "-O1", f"-I{SOURCES}", "-o", program, source, "-lm"], check=True)

    def run(*phases, way=PATIENT, trials=ALL, fixed=0, loop=1):
        words = [way, trials, fixed, loop, *(word for seconds, costs in phases for word in (seconds, *costs))]
        text = subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout
        done, best, *ratios = map(float, text.split())
        return done, best, ratios

    return run


@pytest.mark.parametrize(
    ("phases", "begin", "best", "least"),
    [
        ([(10, (0.2, 0.5, 0.25, 1.0))], PATIENT, {MPI}, 0.95),
        ([(10, (0.2, 0.5, 0.25, 1.0))], BLOCK, {MPI}, 0.95),
        ([(10, (2.0, 1.0, 1.6, 0.2))], MPI, {BLOCK}, 0.9),
        ([(60, (4.0, 4.0, 4.0, 3.2))], MPI, {BLOCK}, 0.9),
        ([(600, (500, 400, 400, 300))], PATIENT, {BLOCK}, 0.8),
        ([(10, EVEN)], PATIENT, set(range(4)), 0.998),
        ([(25, BAD)], PATIENT, {PATIENT}, 0.98),
        ([(100, BAD)], PATIENT, {PATIENT}, 0.985),
        ([(10, ALONE), (20, BESIDE)], PATIENT, {BLOCK}, 0.92),
        ([(10, BESIDE), (20, ALONE)], PATIENT, {MPI, PATIENT}, 0.9),
    ],
)
def test_chooser_loses_little_to_the_fastest_way(choices, phases, begin, best, least):
    done, way, _ = choices(*phases, way=begin)
    assert way in best
    assert done >= least * sum(seconds * 1e3 / min(costs) for seconds, costs in phases)


def test_blocking_is_only_compared_with_mpi(choices):
    done, way, ratios = choices((10, (0.5, 9, 9, 1.0)), way=BLOCK, trials=1 << MPI, fixed=1)
    assert (way, ratios[YIELD], ratios[PATIENT]) == (BLOCK, 0, 0)
    assert ratios[MPI] == pytest.approx(0.5, rel=0.2)
    assert done >= 10_000


def test_program_without_a_loop_is_judged_by_its_calls(choices):
    assert choices((30, (0.2, 0.5, 0.4, 1.0)), loop=0)[1] == MPI
