"""Unmodified MPI programs under the monitor: what it counts is what they did, and nothing else of them changes."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from apples.coscheduling.events import Wait
from apples.monitoring.counters import MonitorState
from apples.monitoring.page import MonitorPage
from tests.transcripts import text_of

WAITS = {"as MPI": None, "poll": Wait.POLL, "adaptive": Wait.ADAPTIVE, "block": Wait.SPIN_BLOCK}
ITERATIONS = 40
#: A slow machine may take longer than 100 us from one call to the next of an event.
APART = {"APPLES_COALESCE_US": "500"}


@pytest.fixture(params=WAITS.values(), ids=WAITS)
def wait(request):
    return request.param


def told(said):
    """What the program says of itself, by rank: CPU s, communication s, events, calls."""
    rows = [line.split() for line in said.splitlines() if line.strip()]
    return {int(row[0]): (float(row[1]), float(row[2]), int(row[3]), int(row[4])) for row in rows}


def check(started, ranks=2):
    truth = told(started.end()[0])
    figures = started.job.figures()
    assert [f.rank for f in figures] == list(range(ranks)) == sorted(truth)
    for f in figures:
        cpu_s, comm_s, events, calls = truth[f.rank]
        assert (f.c_comm, f.calls, f.state, f.ranks) == (events, calls, MonitorState.FINALIZED, ranks)
        # What is measured of a busy machine is compared for gross mistakes only; the benchmark has the figures.
        assert f.t_cpu_s == pytest.approx(cpu_s, rel=0.2, abs=0.02)
        assert f.t_comm_s == pytest.approx(comm_s, rel=0.5, abs=0.2)
        assert f.t_cpu_s + f.t_comm_s <= f.elapsed_s * 1.01
    return figures


@pytest.mark.covering("mpi", "wait")
def test_c_program_is_counted_exactly(mpi, compiled, start, wait):
    check(start(mpi, 2, [*compiled(mpi, "known.c"), "all", ITERATIONS, 1000], wait, **APART))


@pytest.mark.covering("mpi", "source", "wait")
@pytest.mark.parametrize("source", ["known.f90", "known_f08.f90"])
@pytest.mark.parametrize("wait", [None, Wait.SPIN_BLOCK], ids=["as MPI", "block"])
def test_fortran_program_is_counted_exactly(mpi, compiled, start, source, wait):
    check(start(mpi, 2, [*compiled(mpi, source), "all", ITERATIONS, 1000], wait, **APART))


@pytest.mark.covering("mpi", "wait")
@pytest.mark.parametrize("wait", [None, Wait.SPIN_BLOCK], ids=["as MPI", "block"])
def test_python_program_is_counted_exactly(mpi, python_known, start, wait):
    """mpi4py opens the library privately, and asks for large counts that older libraries do not have."""
    # Python itself may compute for a millisecond from one call to the next when it does something for the first time.
    started = start(mpi, 2, [*python_known, "all", ITERATIONS, 8000], wait, APPLES_COALESCE_US="5000")
    (first, _) = check(started)
    assert ("Open MPI" if mpi.name == "openmpi" else "MPICH") in first.mpi


@pytest.mark.covering("mpi", "wait")
def test_statuses_errors_and_requests_are_as_mpi_has_them(mpi, compiled, start, wait):
    unchecked = ["unchecked"] if mpi.unchecked else []
    said, _ = start(mpi, 3, [*compiled(mpi, "semantics.c"), *unchecked], wait).end()
    assert said.count("ok") == 3


def test_several_threads_that_wait_leave_the_error_handler_alone(mpi, compiled, start):
    """While one of them waits for a request of ours, errors return; in the end they go where the program said."""
    said, _ = start(mpi, 1, compiled(mpi, "threads.c"), Wait.POLL).end()
    if said == "alone\n":
        pytest.skip(f"{mpi.name} on this machine allows one thread to call MPI")
    assert said == "ok\n"


def test_who_blocks_sleeps_and_who_polls_does_not(mpi, compiled, start):
    command = [*compiled(mpi, "known.c"), "ring", ITERATIONS, 1000]
    asleep = {}
    for name, wait in (("polls", Wait.POLL), ("blocks", Wait.SPIN_BLOCK)):
        started = start(mpi, 4, command, wait, name=name, **APART)
        asleep[name] = sum(f.sleeps for f in check(started, ranks=4))
    assert asleep["polls"] == 0 < asleep["blocks"]


# The barrier before them may sleep too. The other rank's message may be some milliseconds late.
@pytest.mark.covering("mpi", "beside")
@pytest.mark.parametrize(("beside", "most"), [((), 2), (("beside",), 10)], ids=["alone", "beside others"])
def test_rank_does_not_sleep_while_it_copies_to_itself(mpi, compiled, start, beside, most):
    """It would sleep after each of the 256 pieces of a message, which only itself can continue."""
    times = 8
    started = start(mpi, 2, [*compiled(mpi, "itself.c"), 1 << 22, times, *beside], Wait.SPIN_BLOCK)
    lines = [line.split() for line in started.end()[0].splitlines()]
    assert [word for _, word in sorted(lines)] == ["right", "right"]
    sleeps = [figures.sleeps for figures in started.job.figures()]
    assert max(sleeps) <= most * times, sleeps


def test_adaptive_ranks_on_one_processor_sleep(mpi, compiled, start):
    words = ["taskset", "-c", "0", *compiled(mpi, "known.c"), "ring", ITERATIONS, 1000]
    assert sum(figures.sleeps for figures in check(start(mpi, 2, words, Wait.ADAPTIVE), ranks=2)) > 0


def test_blocking_rank_leaves_its_cpu_in_all_calls(mpi, compiled, start):
    text, _ = start(mpi, 2, compiled(mpi, "waits.c"), Wait.SPIN_BLOCK).end()
    shares = {call: float(share) for call, share in map(str.split, text.splitlines())}
    assert len(shares) == 17 + ("Parrived" in shares)
    # One-sided calls wait as the library does.
    assert {call for call, share in shares.items() if share > 0.6} <= {"Win_fence"}


def test_node_manager_switches_how_a_running_program_waits(mpi, compiled, start, pages_directory):
    started = start(mpi, 2, [*compiled(mpi, "known.c"), "ring", 20000, 1000], Wait.POLL)
    started.page_figures(2, lambda figures: all(f.c_comm > 5 for f in figures))
    pages = [MonitorPage.attach(pages_directory / f"job.{rank}") for rank in range(2)]
    for page in pages:
        page.set_wait(Wait.SPIN_BLOCK, spin_s=0.0)
    asleep = started.page_figures(2, lambda figures: sum(f.sleeps for f in figures) > 5)
    for page in pages:
        page.set_wait(None)
        page.close()
    started.page_figures(2, lambda figures: min(f.c_comm for f in figures) > asleep[0].c_comm + 20)


def test_running_program_is_read_up_to_now(mpi, compiled, start):
    """One computation that lasts longer than the test: nothing is written meanwhile, and still it is seen."""
    started = start(mpi, 2, [*compiled(mpi, "known.c"), "ring", 1, 60e6])
    figures = started.page_figures(2, lambda figures: all(f.t_cpu_s > 0.05 for f in figures))
    assert all(f.c_comm == 1 and f.state is MonitorState.RUNNING for f in figures)


def test_figures_survive_a_crash(mpi, compiled, start):
    started = start(mpi, 2, [*compiled(mpi, "known.c"), "ring", 20000, 1000])
    figures = started.page_figures(2, lambda figures: all(f.c_comm > 20 for f in figures))
    for f in figures:
        started.kill(f.pid)
    started.process.communicate(timeout=60)
    left = started.job.figures()
    assert [f.state for f in left] == [MonitorState.RUNNING, MonitorState.RUNNING]
    assert all(f.c_comm > 20 and f.t_cpu_s > 0 for f in left)
    assert started.job.figures() == left


def test_time_held_stopped_is_neither_computing_nor_waiting(mpi, compiled, start, pages_directory):
    """Rank 1 computes for long, rank 0 waits for it in MPI and is stopped there."""
    started = start(mpi, 1, [*compiled(mpi, "known.c"), "ring", 1, 60e6])
    started.page_figures(1, lambda figures: figures[0].t_cpu_s > 0.02)
    with MonitorPage.attach(pages_directory / "job.0") as page:
        os.kill(page.pid, signal.SIGSTOP)
        status = Path(f"/proc/{page.pid}/stat")
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)
        first = page.reading()
        page.add_stopped(5.0)
        assert page.reading() == first
        os.kill(page.pid, signal.SIGCONT)
    after = started.page_figures(1, lambda figures: figures[0].t_cpu_s > first.t_cpu_s + 0.02)
    assert after[0].t_comm_s == pytest.approx(first.t_comm_s, abs=1e-6)


def test_page_in_use_is_not_taken_by_another_program(mpi, compiled, start):
    first = start(mpi, 1, [*compiled(mpi, "known.c"), "ring", 1, 60e6])
    (owner,) = first.page_figures(1, lambda figures: True)
    second = start(mpi, 1, [*compiled(mpi, "known.c"), "ring", 5, 1000])
    said, errors = second.end()
    assert told(said)[0][2] == 6
    assert "a process that is still running has it; give every job a name of its own" in errors
    assert first.job.figures()[0].pid == owner.pid


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "APPLES_WAIT",
            "sometimes",
            "APPLES_WAIT is 'sometimes', legal are block, adaptive, poll and mpi; taken as mpi",
        ),
        ("APPLES_SPIN_US", "-1", "APPLES_SPIN_US is '-1', legal are microseconds from 0; taken as 120"),
        ("APPLES_COALESCE_US", "x", "APPLES_COALESCE_US is 'x', legal are microseconds from 0; taken as 100"),
    ],
)
def test_settings_that_cannot_be_understood_are_said(start, compiled, mpi, variable, value, message):
    if mpi.name != "mpich-wheel":
        pytest.skip("the same code for every MPI")
    started = start(mpi, 1, ["env", f"{variable}={value}", *compiled(mpi, "known.c"), "ring", 3, 100])
    assert message in started.end()[1]


def test_child_of_the_program_leaves_the_page_alone(start, mpi, tmp_path):
    """Programs start programs, and Python forks: a copy of the process is another process."""
    script = tmp_path / "forks.py"
    script.write_text(text_of("apples/monitoring/forks.txt"))
    started = start(mpi, 1, [sys.executable, script], RDMAV_FORK_SAFE="1")
    started.end()
    assert [(f.rank, f.calls) for f in started.job.figures()] == [(0, 2)]
