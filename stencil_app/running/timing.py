"""Times of one rank: per iteration, and summed into the record it leaves.

Three phases make an iteration: *exchange* (ghost planes, with the wait for the neighbours), *compute* (the sweep, and
the residual where it is due) and *reduce* (the reduction, mostly waiting for the slowest rank). The agent's performance
model is compared with them (Wolski et al. 2000, §3.1). One record per rank, written atomically at the end.
"""

import json
import os
import socket
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from nws.base.files import write_whole
from nws.base.oserrors import REASON, os_errors_as
from nws.base.records import document_of
from stencil_app.errors import OutputError

RECORD_VERSION = 1


class Stopwatch:
    """Seconds of each phase of each iteration, and of checkpoints and of moves to other slabs in between.

    started : `time.perf_counter()` when the process began its work; setup lasts from there to `setup_done`
    clock : the clock of the phases of an iteration, seconds; a benchmark uses the thread's CPU time
    """

    def __init__(self, started: float, clock: Callable[[], float] = perf_counter) -> None:
        self.started = started
        self.clock = clock
        self.setup_done = started
        self.exchange = array("d")
        self.compute = array("d")
        self.reduce = array("d")
        self.checkpoint_s = 0.0
        self.checkpoints = 0
        self.moves_s = 0.0

    def iterations(self, count: int, exchange_s: float, compute_s: float, reduce_s: float) -> None:
        """Add `count` iterations by the lengths of the phases of all together."""
        self.exchange.extend([exchange_s / count] * count)
        self.compute.extend([compute_s / count] * count)
        self.reduce.extend([reduce_s / count] * count)

    def summary(self, now: float) -> dict[str, Any]:
        """Return sums and per-iteration lists, JSON-ready, seconds; `now`: the end of the run."""
        return {
            "setup_s": self.setup_done - self.started,
            "compute_s": sum(self.compute),
            "exchange_s": sum(self.exchange),
            "reduce_s": sum(self.reduce),
            **document_of(self, "checkpoint_s", "checkpoints", "moves_s"),
            "total_s": now - self.started,
            "per_iteration": {
                "compute_s": list(self.compute),
                "exchange_s": list(self.exchange),
                "reduce_s": list(self.reduce),
            },
        }


def record_path(directory: Path, rank: int) -> Path:
    """Return the path of the record of rank `rank`."""
    return directory / f"rank-{rank:05d}.json"


def write_record(directory: Path, rank: int, facts: Mapping[str, Any]) -> None:
    """Write the record of one rank, atomically; raises `OutputError`."""
    path = record_path(directory, rank)
    document = {"version": RECORD_VERSION, "rank": rank, "host": socket.gethostname(), "pid": os.getpid()}
    with os_errors_as(OutputError, f"{path}: the record of rank {rank} could not be written: {REASON}"):
        write_whole(path, json.dumps({**document, **facts}) + "\n")
