"""Client for MPI programs that can move rows between their ranks while they run (`apples-run --adapt slabs`).

This module is for programs with mpi4py; `include/` has the same for C and C++ (`apples.h`) and Fortran (`apples.f90`
with `apples_f.c`). docs/moving-rows.md has the protocol. Without `--adapt` every call returns at once.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

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
#: What the monitor is told: ranks leave and this one stays, or leaves; this one ends without MPI_Finalize.
_STAYS, _LEAVES, _ENDS = 74301, 74302, 74303


def include() -> Path:
    """Return the directory of `apples.h`, `apples.f90` and `apples_f.c`."""
    return Path(__file__).with_name("include")


class Run:
    """Progress of an MPI program and its changes of rows; one on every rank.

    comm : of the ranks that take part.  rows, first : of this rank.  all : rows of each rank
    least : fewest rows a rank may have
    """

    def __init__(self, comm: Intracomm, rows: int, *, least: int = 1, leave: bool = False) -> None:
        """Start; collective.

        Args:
            comm: communicator of the program.
            rows: of this rank, in the order of the ranks.
            least: fewest rows a rank may have.
            leave: whether ranks may leave the run while it goes on. All messages of the program must then be on
                `Run.comm`, which `moved` replaces.
        """
        self.comm = comm.Dup()
        self.least, self._leave = least, leave
        #: Communicators of the ranks that were left after each departure.
        self._remaining: list[Intracomm] = []
        self._take(self.comm.allgather(rows))
        self._next = self.all
        self._read_environment()
        self._active: bool = self.comm.bcast(bool(self._progress or self._slabs))
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
        if self.comm.rank == 0:
            each_s = (now - self._agreed) / self._since
            # at most twice as many iterations as last time: the first ones tell little
            most = min(2 * self._period, _MOST_ITERATIONS)
            self._wish[:] = self._wishes(now), min(max(int(_AGREE_S / each_s), 1), most)
        self._since, self._agreed = 0, now
        self._request = self.comm.Ibcast(self._wish)
        self._mark(0)
        return moves

    def move(self, array: NDArray[Any], ghosts: int = 0) -> NDArray[Any]:
        """Return the planes of this rank's new rows; collective.

        Args:
            array: shape (rows + 2 * ghosts, ...), C-contiguous. Ghost planes are refilled by the next exchange.
            ghosts: planes before the first row, and after the last one.
        """
        return _moved_planes(self.comm, array, ghosts, (self.all, self._next))

    def moved(self) -> None:
        """Take the new rows after all arrays have moved. Does not return on ranks that leave."""
        if 0 in self._next:
            self._go_on_without()
        self._take([rows for rows in self._next if rows])
        self._moves += 1
        now = perf_counter()
        self._spent[2] += now - self._marked
        self._marked = now

    def end(self) -> None:
        """End; collective."""
        if self._request is not None:
            self._request.Wait()
        self.comm.Free()

    def _go_on_without(self) -> None:
        """Go on without the ranks that have no rows; collective. Does not return on those."""
        before, rank = self.comm, self.comm.rank
        if self._request is not None:
            # The wishes of rank 0 are for the ranks of before; only the period holds.
            self._request.Wait()
            self._request, self._period = None, int(self._wish[1])
        stays = next(other for other, rows in enumerate(self._next) if rows)
        _control(_STAYS if self._next[rank] else _LEAVES)
        self.comm = cast("Intracomm", before.Split(int(not self._next[rank]), rank))
        before.Barrier()
        if not self._next[rank]:
            # All others have received everything that this rank has sent.
            before.recv(source=stays, tag=3)
            _release()
        self.comm.Barrier()
        if rank == stays:
            for other in (other for other, rows in enumerate(self._next) if not rows):
                before.send(None, other, tag=3)
        self._read_environment()
        if not self._remaining:
            atexit.register(_finalize, self._remaining)
        self._remaining.append(self.comm.Dup())

    def _read_environment(self) -> None:
        known = os.environ if self.comm.rank == 0 else {}
        self._progress, self._slabs = known.get("STENCIL_APP_PROGRESS"), known.get("STENCIL_APP_SLABS")
        self._every_s = float(known.get("STENCIL_APP_REPORT_EVERY") or 1.0)

    def _take(self, rows: list[int]) -> None:
        self.all = rows
        self.rows, self.first = rows[self.comm.rank], sum(rows[: self.comm.rank])

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
        text = self._seen = self.comm.bcast(self._offer)
        try:
            rows = [int(part) for part in text.split(",")]
        except ValueError:
            rows = []
        problem = _problem(rows, self.all, self.least, leave=self._leave)
        if problem is not None:
            if self.comm.rank == 0:
                self._refused = problem
                sys.stderr.write(f"{self._slabs}: {problem}; the rows stay as they are\n")
            return False
        self._next = rows
        return rows != self.all

    def _report(self, iteration: int, left: float | None) -> None:
        everyone = np.empty((self.comm.size, 3))
        self.comm.Gather(self._spent, everyone if self.comm.rank == 0 else None)
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
            "reduce_s": [0.0] * self.comm.size,
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


def _problem(rows: list[int], before: list[int], least: int, *, leave: bool) -> str | None:
    """Return why new rows cannot be taken, None if they can. leave : ranks may leave"""
    if len(rows) != len(before):
        return "not one number of rows per rank"
    if 0 in rows and leave and not _can_release():
        return "ranks can leave under MPICH's mpiexec only"
    if any(count < least and not (count == 0 and leave) for count in rows):
        return "a rank with fewer rows than it can have"
    return None if sum(rows) == sum(before) else "not as many rows as the run has"


def _moved_planes(
    comm: Intracomm, array: NDArray[Any], ghosts: int, cuts: tuple[list[int], list[int]]
) -> NDArray[Any]:
    """Return the planes of this rank's new rows. cuts : rows of each rank before and after"""
    old, new = cuts
    rank, first = comm.rank, [sum(rows[: comm.rank]) for rows in cuts]
    made = np.zeros((new[rank] + 2 * ghosts, *array.shape[1:]), dtype=array.dtype)
    requests, kept = [], (made[:0], array[:0])
    if ghosts:
        # Planes outside the mesh belong to the first and the last rank. If these leave, others are so now.
        made[:ghosts], made[-ghosts:] = array[:ghosts], array[-ghosts:]
        staying = [other for other, rows in enumerate(new) if rows]
        ends = (0, staying[0], slice(ghosts)), (len(old) - 1, staying[-1], slice(-ghosts, None))
        for tag, (before, after, planes) in enumerate(ends, 1):
            if before != after and rank == before:
                requests.append(comm.Isend(np.ascontiguousarray(array[planes]), after, tag))
            if before != after and rank == after:
                requests.append(comm.Irecv(made[planes], before, tag))
    for other in range(comm.size):
        their_old, their_new = sum(old[:other]), sum(new[:other])
        low, high = max(first[1], their_old), min(first[1] + new[rank], their_old + old[other])
        part = made[low - first[1] + ghosts : max(low, high) - first[1] + ghosts]
        if other == rank:
            kept = part, array[low - first[0] + ghosts : max(low, high) - first[0] + ghosts]
            continue
        if low < high:
            requests.append(comm.Irecv(part, other, 0))
        low, high = max(first[0], their_new), min(first[0] + old[rank], their_new + new[other])
        if low < high:
            part = np.ascontiguousarray(array[low - first[0] + ghosts : high - first[0] + ghosts])
            requests.append(comm.Isend(part, other, 0))
    # MPI would copy these piece by piece, and a rank that sleeps while it waits would sleep after each piece.
    kept[0][:] = kept[1]
    for request in requests:
        request.Wait()
    return made


def _can_release() -> bool:
    """Return whether a rank can end before the others: only hydra, which speaks PMI 1, lets it."""
    return "PMI_FD" in os.environ and "SLURM_STEP_ID" not in os.environ


def _finalize(remaining: list[Intracomm]) -> None:
    """End this process before MPI_Finalize, which would wait for the ranks that have left."""
    if hasattr(sys, "last_value"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    remaining[-1].Barrier()
    _release()


def _control(level: int) -> None:
    """Tell a tool that is loaded into this process, such as the monitor, by the function that MPI has for that."""
    from contextlib import suppress
    from ctypes import CDLL

    # mpi4py passes levels 0 to 2 only.
    with suppress(AttributeError):
        CDLL(None).MPI_Pcontrol(level)


def _release() -> None:
    """End this process as MPI_Finalize and the end of the program would, without the ranks that have left or stay."""
    sys.stdout.flush()
    sys.stderr.flush()
    _control(_ENDS)
    hydra = int(os.environ["PMI_FD"])
    os.write(hydra, b"cmd=finalize\n")
    os._exit(0 if os.read(hydra, 256) else 125)
