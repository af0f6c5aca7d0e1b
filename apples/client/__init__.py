"""Client for MPI programs that can move rows between their ranks while they run (`apples-run --adapt slabs`).

This module is for programs with mpi4py; `include/` has the same for C and C++ (`apples.h`) and Fortran (`apples.f90`
with `apples_f.c`). docs/moving-rows.md has the protocol. Without `--adapt` every call returns at once.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Request
    from numpy.typing import NDArray

__all__ = ["Run", "include"]

_VERSION = 1
#: Seconds between two looks at the file of new rows, and between two agreements of all ranks.
_LOOK_S, _AGREE_S = 0.2, 0.05
_MOST_ITERATIONS = 1000
_REPORT, _ROWS = 1, 2


def include() -> Path:
    """Return the directory of `apples.h`, `apples.f90` and `apples_f.c`."""
    return Path(__file__).with_name("include")


class Run:
    """Progress of an MPI program and its changes of rows; one on every rank.

    rows, first : of this rank.  all : rows of each rank.  least : fewest rows a rank may have
    """

    def __init__(self, comm: Intracomm, rows: int, *, least: int = 1) -> None:
        """Start; collective. rows: of this rank, in the order of the ranks."""
        self._comm = comm.Dup()
        self.least = least
        self._take(self._comm.allgather(rows))
        self._next = self.all
        told = os.environ if comm.rank == 0 else {}
        self._progress, self._slabs = told.get("STENCIL_APP_PROGRESS"), told.get("STENCIL_APP_SLABS")
        self._every_s = float(told.get("STENCIL_APP_REPORT_EVERY") or 1.0)
        self._active: bool = self._comm.bcast(bool(self._progress or self._slabs))
        self._reported = self._agreed = self._marked = perf_counter()
        self._looked = -math.inf
        # seconds computing, in exchanges, moving
        self._spent = np.zeros(3)
        self._phase = self._steps = self._since = self._moves = 0
        # bits of what rank 0 wishes, and iterations between agreements; received while the ranks compute
        self._wish = np.array([0, 1], dtype=np.int32)
        self._period = 1
        self._request: Request | None = None
        self._offer = self._seen = ""
        self._refused: str | None = None

    def exchange(self) -> None:
        """Record that the rank waits for messages from here on."""
        if self._active:
            self._mark(1)

    def compute(self) -> None:
        """Record that the rank works for itself from here on, as it does after the start and each step."""
        if self._active:
            self._mark(0)

    def step(self, iteration: int, left: float | None = None) -> bool:
        """End an iteration; every rank calls it. Return whether rows move now: `move` each array, then call `moved`.

        Args:
            iteration: iterations done.
            left: about how many are left, None if unknown.
        """
        if not self._active:
            return False
        self._steps += 1
        self._since += 1
        if self._since < self._period:
            return False
        now = self._mark(1)
        wish = 0
        if self._request is not None:
            self._request.Wait()
            wish, self._period = map(int, self._wish)
        if wish & _REPORT:
            self._report(iteration, left)
        moves = bool(wish & _ROWS) and self._offered()
        if self._comm.rank == 0:
            each_s = (now - self._agreed) / self._since
            # at most twice as many iterations as last time: the first ones tell little
            most = min(2 * self._period, _MOST_ITERATIONS)
            self._wish[:] = self._wishes(now), min(max(int(_AGREE_S / each_s), 1), most)
        self._since, self._agreed = 0, now
        self._request = self._comm.Ibcast(self._wish)
        self._mark(0)
        return moves

    def move(self, array: NDArray[Any], ghosts: int = 0) -> NDArray[Any]:
        """Return the planes of this rank's new rows; collective.

        Args:
            array: shape (rows + 2 * ghosts, ...), C-contiguous. Ghost planes are refilled by the next exchange.
            ghosts: planes before the first row, and after the last one.
        """
        rank, first, rows = self._comm.rank, sum(self._next[: self._comm.rank]), self._next[self._comm.rank]
        made = np.zeros((rows + 2 * ghosts, *array.shape[1:]), dtype=array.dtype)
        if ghosts:
            # the planes outside the mesh belong to the first and the last rank, which stay the first and the last
            made[:ghosts], made[-ghosts:] = array[:ghosts], array[-ghosts:]
        requests = []
        for other in range(self._comm.size):
            their_old, their_new = sum(self.all[:other]), sum(self._next[:other])
            low, high = max(first, their_old), min(first + rows, their_old + self.all[other])
            if low < high:
                part = made[low - first + ghosts : high - first + ghosts]
                requests.append(self._comm.Irecv(part, other))
            low, high = (
                max(self.first, their_new),
                min(self.first + self.all[rank], their_new + self._next[other]),
            )
            if low < high:
                part = np.ascontiguousarray(array[low - self.first + ghosts : high - self.first + ghosts])
                requests.append(self._comm.Isend(part, other))
        for request in requests:
            request.Wait()
        return made

    def moved(self) -> None:
        """Take the new rows after all arrays have moved."""
        self._take(self._next)
        self._moves += 1
        now = perf_counter()
        self._spent[2] += now - self._marked
        self._marked = now

    def end(self) -> None:
        """End; collective."""
        if self._request is not None:
            self._request.Wait()
        self._comm.Free()

    def _take(self, rows: list[int]) -> None:
        self.all = rows
        self.rows, self.first = rows[self._comm.rank], sum(rows[: self._comm.rank])

    def _mark(self, phase: int) -> float:
        now = perf_counter()
        self._spent[self._phase] += now - self._marked
        self._marked, self._phase = now, phase
        return now

    def _wishes(self, now: float) -> int:
        wish = _REPORT if self._progress and now - self._reported >= self._every_s else 0
        if self._slabs and now - self._looked >= _LOOK_S:
            self._looked = now
            try:
                text = Path(self._slabs).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                text = ""
            if text and text != self._seen:
                self._seen = self._offer = text
                wish |= _ROWS
        return wish

    def _offered(self) -> bool:
        text = self._comm.bcast(self._offer)
        try:
            rows = [int(part) for part in text.split(",")]
        except ValueError:
            rows = []
        problem = None
        if len(rows) != self._comm.size:
            problem = "not one number of rows per rank"
        elif min(rows) < self.least:
            problem = "a rank with fewer rows than it can have"
        elif sum(rows) != sum(self.all):
            problem = "not as many rows as the run has"
        if problem is not None:
            if self._comm.rank == 0:
                self._refused = problem
                sys.stderr.write(f"{self._slabs}: {problem}; the rows stay as they are\n")
            return False
        self._next = rows
        return rows != self.all

    def _report(self, iteration: int, left: float | None) -> None:
        everyone = np.empty((self._comm.size, 3))
        self._comm.Gather(self._spent, everyone if self._comm.rank == 0 else None)
        steps, self._steps = self._steps, 0
        self._spent[:] = 0.0
        now = perf_counter()
        seconds, self._reported = now - self._reported, now
        if self._progress is None:
            return
        line = {
            "version": _VERSION,
            "iteration": iteration,
            "left": left,
            "iterations": steps,
            "seconds": seconds,
            "rows": self.all,
            "compute_s": everyone[:, 0].tolist(),
            "exchange_s": everyone[:, 1].tolist(),
            "reduce_s": [0.0] * self._comm.size,
            "moves": self._moves,
            "moved_s": float(everyone[:, 2].max()) or None,
            "refused": self._refused,
        }
        self._refused = None
        try:
            with open(self._progress, "a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            sys.stderr.write(f"{self._progress}: progress is reported no more: {error.strerror}\n")
            self._progress = None
