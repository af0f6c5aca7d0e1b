"""Observations of unchanged programs: iterations, messages by neighbour, shares of the CPU, start and memory."""

import json

import pytest

from apples.monitoring.counters import Sent
from apples.monitoring.efficiencies import efficiencies, observe, observed
from tests.apples.monitoring.test_efficiencies import figures


@pytest.fixture
def observation(start, pages_directory):
    """Runs a command of an MPI to its end and observes it."""

    def run(mpi, ranks, command):
        started = start(mpi, ranks, command)
        started.end()
        return observe(pages_directory, started.job.name)

    return run


def sent_by(observation):
    return {
        (rank.rank, to.rank): (to.sent_messages, to.sent_bytes)
        for rank in observation.ranks
        for to in rank.neighbours
    }


@pytest.mark.covering("mpi", "how")
@pytest.mark.parametrize("how", ["plain", "persistent", "reversed"])
def test_messages_and_iterations_are_counted_exactly(mpi, compiled, observation, how):
    found = observation(mpi, 3, [*compiled(mpi, "steps.c"), 57, how])
    assert sent_by(found) == dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], (57, 57 * 800))
    middle = found.ranks[1].neighbours
    assert [(one.received_messages, one.received_bytes) for one in middle] == [(57, 57 * 800)] * 2
    assert [rank.iterations for rank in found.ranks] == [57] * 3
    assert found.iterations == 57


def test_iterations_of_one_collective_are_counted(mpi, compiled, observation):
    assert observation(mpi, 2, [*compiled(mpi, "steps.c"), 40, "reduce"]).iterations == 40


def test_start_memory_and_cpu_time_are_observed(mpi, compiled, observation):
    found = observation(mpi, 2, [*compiled(mpi, "steps.c"), 20, "plain"])
    assert found.size == 2
    for rank in found.ranks:
        assert rank.startup_cpu_s > 0
        assert -0.02 < rank.startup_s < 60
        assert 10**6 < rank.peak_bytes < 10**9
        assert rank.cpu_s > 0
        assert 0 <= rank.communication_s <= rank.wall_s
    assert json.loads(json.dumps(found.document()))["iterations"] == 20


@pytest.mark.covering("mpi", "words")
@pytest.mark.parametrize("words", [[], ["then sleeps"]], ids=["computes", "sleeps"])
def test_taken_cpu_is_not_communication(mpi, compiled, start, words):
    """One rank that never communicates, beside another program on its processor."""
    started = start(mpi, 1, [*compiled(mpi, "busy.c"), *words])
    started.end()
    found = efficiencies(started.job.figures())
    assert found.communication > 0.98
    assert found.cpu_share < 0.75
    assert found.activity == pytest.approx(0.67 if words else 1.0, abs=0.08)
    product = found.load_balance * found.communication * found.cpu_share * found.activity
    assert found.parallel == pytest.approx(product)


def test_messages_beyond_the_table_are_told_together():
    sender = figures(0, 1.0, neighbours=(Sent(rank=None, messages=3, bytes=24),))
    receiver = figures(1, 1.0, neighbours=(Sent(rank=0, messages=1, bytes=8),))
    first, second = observed([receiver, sender]).ranks
    (back, others) = first.neighbours
    assert (back.rank, back.sent_messages, back.received_messages) == (1, 0, 1)
    assert (others.rank, others.sent_messages, others.received_messages) == (None, 3, None)
    (only,) = second.neighbours
    assert (only.sent_bytes, only.received_messages) == (8, None)


def test_job_with_a_missing_rank_has_no_iterations():
    found = observed([figures(0, 1.0, ranks=2, iterations=5, period=3)])
    assert found.missing == (1,)
    assert found.iterations is None
