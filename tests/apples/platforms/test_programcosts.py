"""Costs from counters of short runs."""

from types import SimpleNamespace

import pytest

from apples.errors import LaunchError
from apples.platforms.programcosts import (
    ShortRun,
    benchmark_of,
    bytes_of,
    counted_each,
    ignores_pieces,
    memory_of,
    message_cpu_s_of,
    messages_of,
    observations_of,
)

ROW_S, SETUP_S = 1e-3, 0.05


def short_run(rows, iterations, *, cost=ROW_S, loads=None, peaks=()):
    """A run whose ranks follow the model: setup and rows; `loads` are the rows that they really work on."""
    ranks = [
        SimpleNamespace(
            rank=rank,
            ranks=len(rows),
            t_cpu_s=SETUP_S + iterations * load * cost,
            t_comm_s=0.01,
            elapsed_s=2 * (SETUP_S + iterations * load * cost) + 0.01,
            sent=3 + 2 * iterations,
            neighbours=[SimpleNamespace(bytes=50 + 800 * iterations), SimpleNamespace(bytes=30)],
            c_comm=1 + iterations,
            iterations=2 * iterations,
        )
        for rank, load in enumerate(loads or rows)
    ]
    return ShortRun(
        rows=tuple(rows), iterations=iterations, wall_s=0.3 + 0.02 * iterations, ranks=ranks, peak_bytes=peaks
    )


def test_two_runs_give_the_cost_of_a_row():
    found = benchmark_of("toy", short_run([10, 10], 5), short_run([10, 10], 25))
    assert found.ranks == 2
    assert found.seconds_per_row == pytest.approx(ROW_S)
    assert found.setup_cpu_s == pytest.approx(SETUP_S)
    assert found.startup_s == pytest.approx(0.3)


def test_iterations_without_cost_are_an_error():
    with pytest.raises(LaunchError, match=r"0\.000 s more CPU time for 25 than for 5 iterations"):
        benchmark_of("toy", short_run([10], 5, cost=0.0), short_run([10], 25, cost=0.0))
    runs = [short_run([10], n, cost=0.0) for n in (5, 25)]
    for run in runs:
        run.ranks[0].iterations = 30
    with pytest.raises(LaunchError, match="its loop had 30 iterations both times: the check does not change"):
        benchmark_of("toy", *runs)


def test_counted_iterations_of_each_iteration_cancel_the_rest():
    assert counted_each(short_run([1, 3], 5), short_run([1, 3], 25)) == 2
    silent = [short_run([1, 3], n) for n in (5, 25)]
    for run in silent:
        run.ranks[0].iterations = 0
    assert counted_each(*silent) is None


def test_messages_are_counted_by_iteration():
    assert messages_of(short_run([1, 3], 5), short_run([1, 3], 25)) == 2
    silent = [short_run([1, 3], n) for n in (5, 25)]
    for run in silent:
        for rank in run.ranks:
            rank.sent = 0
    assert messages_of(*silent) == 1


def test_time_in_mpi_of_the_rank_with_least_is_of_its_messages():
    runs = [short_run([1, 3], n) for n in (5, 25)]
    for run in runs:
        for rank, message_s in zip(run.ranks, (1e-3, 5e-4), strict=True):
            rank.cpu_s = rank.t_cpu_s + 0.1 + message_s * 2 * run.iterations
    assert message_cpu_s_of(*runs) == pytest.approx(5e-4)
    for run in runs:
        for rank in run.ranks:
            rank.sent = rank.c_comm = 0
    assert message_cpu_s_of(*runs) is None


def test_bytes_to_a_neighbour_are_counted_by_iteration():
    assert bytes_of(short_run([1, 3], 5), short_run([1, 3], 25)) == 800


def test_memory_comes_from_pieces_that_differ():
    assert memory_of([short_run([10, 30], 5, peaks=(50_000, 90_000))]) == (2000, 30_000)
    assert memory_of([short_run([10, 10], 5, peaks=(50_000, 50_000))]) == (0, 0)
    assert memory_of([short_run([10, 30], 5, peaks=(None, None))]) == (0, 0)


@pytest.mark.parametrize(
    ("loads", "ignored"), [((8, 24), False), ((16, 16), True), ((24, 8), True), ((10, 22), False)]
)
def test_ignored_pieces_show_in_cpu_time(loads, ignored):
    runs = [short_run([8, 24], n, loads=loads) for n in (5, 25)]
    assert ignores_pieces(*runs) == ignored


def test_observations_tell_setup_from_computation():
    run = short_run([10, 30], 20)
    found = observations_of(run.ranks, [10, 30], ["a", "b"], iterations=20, setup_cpu_s=[SETUP_S] * 2)
    assert [(o.rank, o.host, o.rows) for o in found] == [(0, "a", 10), (1, "b", 30)]
    # The ranks had half a CPU.
    assert found[1].setup_s == pytest.approx(2 * SETUP_S)
    assert found[1].compute_s == pytest.approx(2 * 20 * 30 * ROW_S)
    assert found[1].cpu_s == pytest.approx(20 * 30 * ROW_S)
    assert found[1].communicate_s == pytest.approx(0.01)
    # Runs that computed for less time than a setup takes show no CPU time of rows.
    found = observations_of(run.ranks, [10, 30], ["a", "b"], iterations=20, setup_cpu_s=[1e3] * 2)
    assert [o.cpu_s for o in found] == [None, None]
