"""The loop of the synthetic job and its report; collective on all ranks.

An iteration is one computation and, unless the pattern is none, one communication: with the ring a message to either
neighbour and one from each, which is two `MPI_Sendrecv`. Ranks measure themselves on the wall; if they compute by the
CPU clock, on that as well.

Computing for a given CPU time, in two ways; neither depends on other users of the core.

`Spin` reads the rank's own CPU clock until it has advanced far enough: exact by definition. `Arithmetic` does a fixed
amount of work, calibrated once in turns a second, for experiments whose jobs do the same work under any scheduler. A
run on quiet cores reports its rate, which is an argument of later runs.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

#: Turns of one calibration, and number of calibrations; the fastest, undisturbed one counts.
_TURNS, _TRIES = 200_000, 25


class Work(Protocol):
    """Computing. `rate`: turns a CPU second, None if it uses the clock."""

    rate: float | None

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""

    def compute(self) -> None:
        """Compute once."""


class Spin:
    """Computing by the CPU clock of the thread."""

    def __init__(self) -> None:
        self.rate: float | None = None
        self._ns = 0

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""
        self._ns = round(seconds * 1e9)

    def compute(self) -> None:
        """Read the clock until the time is over."""
        clock = time.thread_time_ns
        until = clock() + self._ns
        while clock() < until:
            pass


class Arithmetic:
    """Computing by the amount of work. `rate`: turns a CPU second, None to measure it."""

    def __init__(self, rate: float | None = None) -> None:
        from apples_experiments.bsp.arithmetic import turn

        self._turn = turn
        self.rate: float | None = self.measured_rate() if rate is None else rate
        self._turns = 0

    def measured_rate(self) -> float:
        """Return turns a CPU second of this core, now."""
        best_ns = min(self._timed_ns() for _ in range(_TRIES))
        return _TURNS * 1e9 / best_ns

    def _timed_ns(self) -> int:
        before = time.thread_time_ns()
        self._turn(_TURNS, 0.5)
        return max(time.thread_time_ns() - before, 1)

    def prepare(self, seconds: float) -> None:
        """Set the CPU seconds of later calls of `compute`."""
        assert self.rate is not None
        self._turns = max(1, round(seconds * self.rate))

    def compute(self) -> None:
        """Do the work."""
        self._turn(self._turns, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class BspSettings:
    """A synthetic job, checked.

    granularity_s : CPU seconds of computing in an iteration at imbalance 1
    imbalance : factors of it, repeated over the ranks
    rate : turns of the arithmetic in a CPU second, None to measure it
    """

    granularity_s: float
    imbalance: tuple[float, ...]
    iterations: int
    pattern: str
    message_bytes: int
    work: str
    rate: float | None

    def compute_s(self, rank: int) -> float:
        """Return CPU seconds that a rank computes in an iteration."""
        return self.granularity_s * self.imbalance[rank % len(self.imbalance)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """The report of one rank, seconds.

    asked_s : CPU time requested.  compute_s, communicate_s : on the wall
    communications : iterations with communication.  received : messages equal to those their sender sent in that
    iteration
    """

    rank: int
    host: str
    pid: int
    asked_s: float
    compute_s: float
    communicate_s: float
    communications: int
    received: int


def make_work(comm: Intracomm, settings: BspSettings) -> Work:
    """Return the computing of this rank; all ranks get the same rate, the highest that one of them measured."""
    if settings.work == "spin":
        return Spin()
    work = Arithmetic(settings.rate)
    work.rate = max(comm.allgather(work.rate))
    return work


def run(comm: Intracomm, settings: BspSettings) -> dict[str, Any]:
    """Run to the end; return the document of the run, the same on every rank."""
    work = make_work(comm, settings)
    work.prepare(settings.compute_s(comm.rank))
    ring = Ring(comm, settings.message_bytes) if settings.pattern == "ring" else None
    communicate = _communication(comm, settings, ring)
    clock = time.perf_counter
    compute_s = communicate_s = 0.0
    comm.Barrier()
    began = clock()
    for _ in range(settings.iterations):
        start = clock()
        work.compute()
        computed = clock()
        communicate()
        communicate_s += clock() - computed
        compute_s += computed - start
    elapsed_s = clock() - began
    report = RankReport(
        rank=comm.rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        asked_s=settings.iterations * settings.compute_s(comm.rank),
        compute_s=compute_s,
        communicate_s=communicate_s,
        communications=0 if settings.pattern == "none" else settings.iterations,
        received=0 if ring is None else ring.received(),
    )
    everyone = comm.allgather((elapsed_s, report))
    return _document(settings, work, everyone)


class Ring:
    """Messages to and from both neighbours, each checked on arrival.

    A message ends with a stamp of rank and iteration; the bytes before it are the same each time, and checked in
    the last
    messages only.
    """

    def __init__(self, comm: Intracomm, message_bytes: int) -> None:
        """message_bytes : length of a message; shorter than 8, its last byte is the stamp"""
        self._size, self._exchange = comm.size, comm.Sendrecv
        self._rank, self._left, self._right = (
            comm.rank,
            (comm.rank - 1) % comm.size,
            (comm.rank + 1) % comm.size,
        )
        self._mine = bytearray([_filling(comm.rank)]) * message_bytes
        self._from_left, self._from_right = bytearray(message_bytes), bytearray(message_bytes)
        code: Literal["Q", "B"] = "Q" if message_bytes >= 8 else "B"
        stamp_bytes = 8 if message_bytes >= 8 else min(message_bytes, 1)
        self._stamp_at = message_bytes - stamp_bytes
        self._modulus = 256**stamp_bytes
        # A message without a byte cannot be checked: every rank finds one element unchanged.
        one = bytearray(1)
        self._stamps = [
            memoryview(message)[self._stamp_at :].cast(code) if stamp_bytes else memoryview(one)
            for message in (self._mine, self._from_left, self._from_right)
        ]
        # From 1: the stamp of an empty buffer is no message.
        self._iteration = 1
        self._right_ones: int = 0

    def __call__(self) -> None:
        """Make one exchange."""
        mine, of_left, of_right = self._stamps
        modulus, base = self._modulus, self._iteration * self._size
        mine[0] = (base + self._rank) % modulus
        self._exchange(self._mine, self._right, 1, self._from_left, self._left, 1)
        self._exchange(self._mine, self._left, 2, self._from_right, self._right, 2)
        self._right_ones += of_left[0] == (base + self._left) % modulus
        self._right_ones += of_right[0] == (base + self._right) % modulus
        self._iteration += 1

    def received(self) -> int:
        """Return the number of correct messages; call it at the end."""
        at, last = self._stamp_at, (self._iteration - 1) * self._size
        neighbours = ((self._from_left, self._left), (self._from_right, self._right))
        spoilt: int = sum(
            stamp[0] == (last + rank) % self._modulus and message.count(_filling(rank), 0, at) != at
            for stamp, (message, rank) in zip(self._stamps[1:], neighbours, strict=True)
        )
        return self._right_ones - spoilt


def _filling(rank: int) -> int:
    return (rank + 1) % 256


def _communication(comm: Intracomm, settings: BspSettings, ring: Ring | None) -> Callable[[], None]:
    """Return the function that ends an iteration."""
    if ring is not None:
        return ring
    return comm.Barrier if settings.pattern == "barrier" else lambda: None


def _document(settings: BspSettings, work: Work, everyone: list[tuple[float, RankReport]]) -> dict[str, Any]:
    from mpi4py import MPI

    return {
        "application": "bsp",
        "mpi": " ".join(MPI.Get_library_version().split()[:3]).rstrip(","),
        "ranks": len(everyone),
        **asdict(settings),
        "imbalance": list(settings.imbalance),
        "rate": work.rate,
        "elapsed_s": max(elapsed_s for elapsed_s, _ in everyone),
        "per_rank": [asdict(report) for _, report in everyone],
    }


def text_lines(document: dict[str, Any]) -> list[str]:
    """Return the document as text."""
    rate = document["rate"]
    return [
        f"bsp: {document['iterations']} iterations of {document['granularity_s'] * 1e3:g} ms, pattern "
        f"{document['pattern']}, {document['ranks']} rank{'s' * (document['ranks'] != 1)}, {document['mpi']}"
        + ("" if rate is None else f", rate {rate:.6g}"),
        f"elapsed {document['elapsed_s']:.6f} s",
        *(
            f"rank {entry['rank']}: computed {entry['compute_s']:.6f} s of {entry['asked_s']:.6f} s, "
            f"communicated {entry['communicate_s']:.6f} s in {entry['communications']}, "
            f"received {entry['received']} messages"
            for entry in document["per_rank"]
        ),
    ]
