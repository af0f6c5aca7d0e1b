"""Settings of the experiments of Wolski et al. 2000: sizes, pools, runs and seeds, from one file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apples.model.config import find_config
from nws.base.reader import load_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """A number of runs in one world of this seed."""

    runs: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRuns:
    """Runs under load, each in a world of its own; see the file for the meaning of each."""

    runs: int
    first_seed: int
    lost_beyond: float
    repeats: int
    pool: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `configs/experiments/wolski2000.yaml` says."""

    grid: str
    scenario: str
    application: str
    sizes: tuple[int, ...]
    pools: tuple[int, ...]
    close_to_optimal_s: float
    calibration: RunSet
    scored: RunSet
    rest_s: float
    loaded: LoadedRuns

    def combinations(self, max_rows: int | None) -> list[tuple[int, int]]:
        """(size, pool) pairs whose equal slabs respect the array limit, sizes outermost (§4.2)."""
        limit = math.inf if max_rows is None else max_rows
        return [(size, pool) for size in self.sizes for pool in self.pools if math.ceil(size / pool) <= limit]


def load_settings(name: str = "experiments/wolski2000") -> Settings:
    """The settings file; raises `ConfigError` with every problem."""
    return load_yaml(find_config(name), Settings)
