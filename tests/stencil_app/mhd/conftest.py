import os
from pathlib import Path

import numpy as np
import pytest

from stencil_app.mesh.decomposition import Decomposition
from stencil_app.mhd.case import entry
from stencil_app.mhd.equations import MhdProblem
from stencil_app.options import parse_all

DATA = Path(os.environ.get("APPLES_DATA") or Path(__file__).parents[3] / ".." / "shared" / "data") / "mhd"


def make(name, **texts):
    """A problem by its name; options as on the command line."""
    problem = entry(name)
    values, problems = parse_all(problem.options, {key: str(text) for key, text in texts.items()})
    assert not problems
    return MhdProblem(problem.make(values), {"problem": name, **values})


class Ranks:
    """Slabs of one problem in one process: what the runtime does, with messages copied instead of sent."""

    def __init__(self, problems, heights):
        self.problems, self.slabs = problems, Decomposition(heights)
        self.layout = problems[0].layout
        self.fields = [[self.layout.allocate(rows) for _ in range(2)] for rows in heights]
        for rank, problem in enumerate(problems):
            problem.initialise(self.fields[rank][0], self.slabs.first_row(rank))
            for field in self.fields[rank]:
                problem.dress(field, self.slabs.first_row(rank))

    def exchange(self):
        last = self.slabs.ranks - 1
        pieces = [self.layout.messages(pair[0]) for pair in self.fields]
        periodic = self.problems[0].periodic
        for rank, piece in enumerate(pieces):
            if rank > 0 or periodic:
                piece.from_below[...] = pieces[rank - 1].to_above
            if rank < last or periodic:
                piece.from_above[...] = pieces[(rank + 1) % (last + 1)].to_below

    def cycle(self, count):
        firsts = [self.slabs.first_row(rank) for rank in range(self.slabs.ranks)]
        for _ in range(count):
            together = list(zip(self.problems, self.fields, firsts, strict=True))
            bits = max(
                problem.rate_bits(pair[0], first, ends=ends)
                for problem, pair, first in together
                for ends in (True, False)
            )
            rate = float(np.int64(bits).view(np.float64))
            for problem, pair, first in together:
                problem.choose_step(rate, np.inf)
                problem.sweep_ahead(*pair, first)
            self.exchange()
            for problem, pair, first in together:
                problem.sweep(*pair, first)
                pair.reverse()
        return self

    def values(self):
        """All rows as checkpoints keep them, the faces on top of the mesh included."""
        rows = []
        for rank, height in enumerate(self.slabs.heights):
            more = 1 if rank == self.slabs.ranks - 1 else 0
            rows += [self.layout.pack(self.fields[rank][0], row) for row in range(height + more)]
        return np.array(rows)


@pytest.fixture
def problem():
    return make


@pytest.fixture
def ranks():
    """Slabs of so many rows each, every one with a problem of its own."""

    def start(name, heights, **texts):
        return Ranks([make(name, **texts) for _ in heights], tuple(heights))

    return start


@pytest.fixture(scope="session")
def reference():
    """A reference solution by its file name; skips where there are none."""

    def load(name):
        if not (DATA / name).is_file():
            pytest.skip(
                f"reference solution {name} not there; set APPLES_DATA to the parent directory of mhd"
            )
        return np.load(DATA / name)

    return load


@pytest.fixture
def mhd(stencil_app):
    """Run `stencil-app mhd ...` on so many ranks (0: in this process, where it is one), in an empty directory."""

    def run(ranks, *words):
        return stencil_app(ranks, "mhd", *words)

    return run
