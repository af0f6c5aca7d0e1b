"""A simulated machine for the policy: ranks whose hosts slow down and recover, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apples.planning.adapting.policy import AdaptationInputs, SlabPolicy
from apples.planning.adapting.repartitioning import balanced, moved_rows
from apples.planning.adapting.settings import SlabSettings
from tests.apples.samples import a_stretch

Load = Callable[[float], list[float]]
"""Slow-down of every rank at a time in seconds, 1 for none."""


@dataclass
class Machine:
    """row_s : seconds of a row on each idle host.  move_s : of a move, and of each row that moves."""

    row_s: list[float]
    load: Load
    size: int = 400
    iterations: int = 2000
    fixed_s: float = 0.002
    noise: float = 0.0
    move_s: tuple[float, float] = (0.02, 1e-4)
    seed: int = 1

    @property
    def plan(self) -> tuple[int, ...]:
        """The best slabs for what the load is at the start."""
        return self.best(0.0)

    def best(self, t: float) -> tuple[int, ...]:
        rows = balanced(np.multiply(self.row_s, self.load(t)), self.size, 1, np.full(len(self.row_s), np.inf))
        return tuple(rows.tolist())

    def run(self, policy: SlabPolicy | None, every_s: float = 0.5) -> tuple[float, list[tuple[float, tuple]]]:
        """Seconds the whole run takes, and when it went over to which rows. None for no policy."""
        rng = np.random.default_rng(self.seed)
        rows, t, moves = self.plan, 0.0, []
        ranks = range(len(rows))
        began, count, compute, noise = t, 0, [0.0] * len(rows), self._noise(rng)
        moved_s = None
        for iteration in range(1, self.iterations + 1):
            load = self.load(t)
            took = [rows[r] * self.row_s[r] * load[r] * noise[r] for r in ranks]
            t += max(took) + self.fixed_s
            compute = [compute[r] + took[r] for r in ranks]
            count += 1
            if policy is None or t - began < every_s:
                continue
            told = a_stretch(
                rows,
                self.row_s,
                iteration,
                left=float(self.iterations - iteration),
                iterations=count,
                seconds=t - began,
                compute_s=tuple(compute),
                moves=len(moves),
                moved_s=moved_s,
            )
            found = policy.hear(told)
            began, count, compute, noise = t, 0, [0.0] * len(rows), self._noise(rng)
            moved_s = None
            if found is not None:
                moved_s = self.move_s[0] + self.move_s[1] * moved_rows(rows, found.rows)
                rows = found.rows
                moves.append((t, found.rows))
                t += moved_s
        return t, moves

    def _noise(self, rng):
        return np.exp(rng.normal(0.0, self.noise, len(self.row_s))).tolist() if self.noise else [1.0] * 8

    def policy(self, settings: SlabSettings | None = None) -> SlabPolicy:
        ranks = len(self.row_s)
        inputs = AdaptationInputs(
            rows=self.plan, hosts=tuple("abcdefgh"[:ranks]), caps=(float(self.size),) * ranks
        )
        return SlabPolicy(inputs, settings)

    def both(self) -> tuple[float, float, list]:
        """Seconds without adaptation and with it, and the moves."""
        adapted, moves = self.run(self.policy())
        return self.run(None)[0], adapted, moves
