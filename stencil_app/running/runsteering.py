"""Steering of a run: lines of progress out, heights of new slabs in.

Rank 0 alone reads the clock and the file of new slabs. Its requests travel with the reduction that ends every
iteration, so that all ranks act after the same one at no extra cost. One line reports the work of each rank since the
line before. An unusable cut is refused with a reason, and the run continues unchanged. The reader of the lines and the
writer of the heights are not known here (docs/application.md).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from stencil_app.mesh.decomposition import Decomposition, cut_problem, parse
from stencil_app.running.mpi import shortage

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from stencil_app.mesh.slab import Slab
    from stencil_app.running.timing import Stopwatch

#: Defaults from the environment: the two files, and seconds between lines.
PROGRESS_VARIABLE = "STENCIL_APP_PROGRESS"
SLABS_VARIABLE = "STENCIL_APP_SLABS"
EVERY_VARIABLE = "STENCIL_APP_REPORT_EVERY"

PROGRESS_VERSION = 1
DEFAULT_EVERY_S = 1.0
#: Seconds between reads of the file of new slabs.
LOOK_EVERY_S = 0.2
#: A long run writes fewer lines: at most this many while its time doubles, so that the file stays small.
LINES_PER_DOUBLING = 600

NOTHING, REPORT, CUT = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Files of steering. progress : lines are appended here.  slabs : new heights are read here.

    every_s : seconds per line.
    """

    progress: Path | None = None
    slabs: Path | None = None
    every_s: float = DEFAULT_EVERY_S


def places(progress: Path | None, slabs: Path | None, environment: Mapping[str, str] | None = None) -> Places:
    """Return the files that the command line names, with defaults from the environment."""
    variables = os.environ if environment is None else environment

    def of(name: str) -> Path | None:
        return Path(variables[name]) if variables.get(name) else None

    try:
        every_s = max(0.0, float(variables.get(EVERY_VARIABLE, "")))
    except ValueError:
        every_s = DEFAULT_EVERY_S
    return Places(
        progress=progress or of(PROGRESS_VARIABLE), slabs=slabs or of(SLABS_VARIABLE), every_s=every_s
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Progress of a run: iterations done, and approximate number left, None if unknown."""

    iteration: int
    left: float | None


class Steering:
    """Reports of a run, and slabs for it; on every rank, though only rank 0 reads and writes.

    moves : number of accepted changes of slabs
    """

    def __init__(self, comm: Intracomm, where: Places, watch: Stopwatch) -> None:
        self.moves = 0
        self._comm, self._watch = comm, watch
        self._progress = where.progress if comm.rank == 0 else None
        self._slabs = where.slabs if comm.rank == 0 else None
        self._every_s = where.every_s
        self._began = self._reported_at = perf_counter()
        self._looked_at = -inf
        self._seen = self._offer = ""
        self._refused: str | None = None
        self._counted = 0
        self._moved_s = 0.0

    def wish(self) -> int:
        """Return this rank's requests to all ranks after this iteration, bits of REPORT and CUT; cheap."""
        if self._progress is None and self._slabs is None:
            return NOTHING
        now = perf_counter()
        every_s = max(self._every_s, (now - self._began) / LINES_PER_DOUBLING)
        wish = REPORT if self._progress is not None and now - self._reported_at >= every_s else NOTHING
        if self._slabs is not None and now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._offer = self._new_text(self._slabs)
            wish |= CUT if self._offer else NOTHING
        return wish

    def report(self, slab: Slab, position: Position) -> None:
        """Append a line with the work of every rank since the last report; collective."""
        watch, done = self._watch, len(self._watch.compute)
        phases = (watch.compute, watch.exchange, watch.reduce)
        mine = np.array([*(np.frombuffer(p)[self._counted :].sum() for p in phases), self._moved_s])
        everyone = np.empty((self._comm.size, len(mine)))
        self._comm.Gather(mine, everyone if self._comm.rank == 0 else None)
        iterations, self._counted, self._moved_s = done - self._counted, done, 0.0
        now = perf_counter()
        seconds, self._reported_at = now - self._reported_at, now
        if self._progress is None:
            return
        moved_s = float(everyone[:, 3].max())
        line = {
            "version": PROGRESS_VERSION,
            "iteration": position.iteration,
            "left": position.left,
            "iterations": iterations,
            "seconds": seconds,
            "rows": list(slab.decomposition.heights),
            "compute_s": everyone[:, 0].tolist(),
            "exchange_s": everyone[:, 1].tolist(),
            "reduce_s": everyone[:, 2].tolist(),
            "moves": self.moves,
            "moved_s": moved_s or None,
            "refused": self._refused,
        }
        self._refused = None
        self._append(json.dumps(line).encode() + b"\n")

    def offered(self, slab: Slab) -> Decomposition | None:
        """Return the cut that rank 0 has found, None if it is unusable; collective."""
        text = self._comm.bcast(self._offer)
        self._offer = ""
        problem = cut_problem(text, (slab.problem.size, slab.problem.layout.least_rows), self._comm.size)
        if problem is None:
            cut = parse(text)
            layout, rank = slab.problem.layout, self._comm.rank
            more = layout.field_bytes(cut.heights[rank]) - layout.field_bytes(slab.rows)
            lacking = [text for text in self._comm.allgather(shortage(self._comm, 2 * more)) if text]
            if not lacking:
                return None if cut == slab.decomposition else cut
            problem = f"{text}: {'; '.join(dict.fromkeys(lacking))}"
        if self._comm.rank == 0:
            self._refused = problem
            sys.stderr.write(f"{self._slabs}: {problem}; the slabs stay as they are\n")
        return None

    def moved(self, seconds: float) -> None:
        """Record the seconds that a move of rows took on this rank."""
        self.moves += 1
        self._moved_s += seconds

    def _new_text(self, path: Path) -> str:
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""  # not there yet, or being written
        if text == self._seen:
            return ""
        self._seen = text
        return text

    def _append(self, line: bytes) -> None:
        """Append a progress line. If the file cannot be written, stop reporting; the run continues."""
        assert self._progress is not None
        try:
            with self._progress.open("ab", buffering=0) as file:
                file.write(line)
        except OSError as error:
            sys.stderr.write(f"{self._progress}: progress is not told any more: {error.strerror}\n")
            self._progress = None
