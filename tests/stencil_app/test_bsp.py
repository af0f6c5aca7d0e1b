"""The synthetic job: what is asked of it is checked as a whole, and it does just that."""

import json
import sys

import pytest

from apples_experiments.bsp.bspcommand import check, parse_imbalance, parse_span
from apples_experiments.bsp.syntheticjob import Arithmetic, Ring, Spin
from stencil_app.errors import UsageError
from tests.transcripts import recorded


def test_spinning_goes_by_the_cpu_clock(monkeypatch):
    readings = iter([100, 200, 1_000_099, 1_000_100])
    monkeypatch.setattr("time.thread_time_ns", lambda: next(readings))
    spin = Spin()
    spin.prepare(1e-3)
    spin.compute()
    assert next(readings, None) is None


def test_arithmetic_goes_by_the_amount_of_work(monkeypatch):
    work = Arithmetic(rate=2e6)
    done = []
    monkeypatch.setattr(work, "_turn", lambda turns, x: done.append(turns))
    work.prepare(1e-3)
    work.compute()
    assert done == [2000]


def test_rate_can_be_measured():
    assert 1e6 < Arithmetic().rate < 1e11


def test_ring_of_three(stencil_app):
    options = ["--iterations=20", "--granularity=100us", "--imbalance=1,2", "--message=4", "--work=spin"]
    done = stencil_app(3, "bsp", *options, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["ranks"], document["iterations"], document["pattern"]) == (3, 20, "ring")
    # one of each neighbour in each of 20 iterations
    assert [entry["received"] for entry in document["per_rank"]] == [2 * 20] * 3
    assert [entry["asked_s"] for entry in document["per_rank"]] == pytest.approx([2e-3, 4e-3, 2e-3])
    assert all(entry["compute_s"] >= entry["asked_s"] for entry in document["per_rank"])
    assert document["elapsed_s"] >= max(entry["compute_s"] for entry in document["per_rank"])


class FakeRing:
    """Rank 1 of 3; its neighbours' messages are made of its own. lost : iterations in which nothing comes"""

    rank, size = 1, 3

    def __init__(self, lost=(), spoilt=()):
        self.lost, self.spoilt, self.calls = lost, spoilt, 0

    def Sendrecv(self, mine, to, _tag, heard, source, _same_tag):
        iteration, self.calls = self.calls // 2, self.calls + 1
        assert {to, source} == {0, 2}
        if iteration in self.lost:
            return
        length = 8 if len(mine) >= 8 else min(len(mine), 1)
        stamp = (((iteration + 1) * 3 + source) % 256**length).to_bytes(length, sys.byteorder)
        heard[:] = bytes([source + 1]) * (len(mine) - len(stamp)) + stamp
        if iteration in self.spoilt and len(mine) > 8:
            heard[0] ^= 1


@pytest.mark.parametrize(
    ("message_bytes", "iterations", "faults", "received"),
    [
        *((size, 300, {}, 600) for size in (0, 1, 7, 8, 9, 1000)),
        # Whichever iteration is lost: the buffers then hold the message before.
        *((8, 10, {"lost": [lost]}, 18) for lost in (0, 3, 9)),
        (100, 10, {"lost": range(10)}, 0),
        (100, 10, {"spoilt": [9]}, 18),
    ],
)
def test_ring_counts_the_correct_messages(message_bytes, iterations, faults, received):
    ring = Ring(FakeRing(**faults), message_bytes)
    for _ in range(iterations):
        ring()
    assert ring.received() == received


def test_report_for_people(stencil_app):
    done = stencil_app(2, "bsp", "--iterations", 3, "--pattern", "barrier", "--rate", 1e6)
    assert done.returncode == 0, done.stderr
    first, second, *ranks = done.stdout.splitlines()
    assert first.startswith("bsp: 3 iterations of 1 ms, pattern barrier, 2 ranks, ")
    assert first.endswith(", rate 1e+06")
    assert second.startswith("elapsed ")
    assert [line.split(":")[0] for line in ranks] == ["rank 0", "rank 1"]


def test_alone_and_without_communication(stencil_app):
    options = ["--seconds=1ms", "--granularity=500us", "--pattern=none", "--work=spin"]
    done = stencil_app(0, "bsp", *options, "--json")
    document = json.loads(done.stdout)
    assert (document["iterations"], document["per_rank"][0]["communications"]) == (2, 0)


def test_what_is_wrong_is_said_once_by_all_ranks(stencil_app):
    done = stencil_app(2, "bsp", "--granularity", "0", "--what", "x", "y", "--pattern", "star")
    assert done.returncode == 2
    assert done.stdout == ""
    assert sorted(
        line.split(": ", 1)[1].split(";")[0]
        for line in done.stderr.splitlines()
        if line.startswith("stencil-app: ")
    ) == [
        "--granularity: got '0'",
        "--pattern: got 'star'",
        "unexpected word 'y'",
        "unknown option --what",
    ]


@recorded("stencil_app/bsp.txt", "kind", "given")
def test_options_of_the_job_are_as_recorded(answered, kind, given):
    try:
        if kind == "options":
            settings = check(given, [])
            answered([str(settings), str([round(settings.compute_s(rank), 9) for rank in range(5)])])
        else:
            answered({"span": parse_span, "imbalance": parse_imbalance}[kind](given))
    except (UsageError, ValueError) as refusal:
        answered(str(refusal))
