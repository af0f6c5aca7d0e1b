"""Settings files of the experiments, and the settings of Wolski et al. 2000: sizes, pools, runs and seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nws.base.reader import load_yaml

T = TypeVar("T")
CONFIGS = Path(__file__).with_name("configs")


def read_settings(name: str, kind: type[T]) -> T:
    """Return the contents of a settings file.

    Args:
        name: the path of a YAML file, or the name of one in `CONFIGS` without its ending.

    Raises:
        ConfigError: the file cannot be read, or values are not legal; the message has all problems with their lines.
    """
    return load_yaml(path if (path := Path(name)).is_file() else CONFIGS / f"{name}.yaml", kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSet:
    """A number of runs in one simulated world with this seed."""

    runs: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRuns:
    """Runs under load, each in its own world; the file explains the values."""

    runs: int
    first_seed: int
    lost_beyond: float
    repeats: int
    pool: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WolskiSettings:
    """Contents of `configs/wolski2000.yaml`."""

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
        """Return the (size, pool) pairs whose equal slabs respect the array limit, sizes outermost (§4.2)."""
        limit = math.inf if max_rows is None else max_rows
        return [(size, pool) for size in self.sizes for pool in self.pools if math.ceil(size / pool) <= limit]


def load_settings() -> WolskiSettings:
    """Return the settings of A1 to A9."""
    return read_settings("wolski2000", WolskiSettings)
