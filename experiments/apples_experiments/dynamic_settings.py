"""Settings of the dynamic workloads, from `configs/dynamic.yaml`, which states their sources."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from apples.errors import ConfigError
from apples_experiments.coscheduled_settings import Positive, Seeds, Share, Whole
from apples_experiments.coscheduled_tables import ALGORITHMS
from apples_experiments.dynamicjobs.jobs import VARIED
from apples_experiments.lublin import MODELS
from apples_experiments.settings import read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    """Values that `--quick` uses in place of the settings of the same names."""

    jobs: Whole
    seeds: Seeds
    loads: tuple[Positive, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Settings of F9.

    shown: the load at which policies are compared
    time_scale: factor of the model's times
    imbalances: run times of slow ranks over those of the others
    bound_s: τ of the bounded slowdown
    increment_s: see `apples_experiments.dynamicjobs.rows.RowQueues`
    """

    nodes: Whole
    processors: Whole
    mpl: Whole
    loads: tuple[Positive, ...]
    shown: Positive
    time_scale: Positive
    bound_s: Positive
    increment_s: Positive
    granularities_s: tuple[Positive, ...]
    imbalances: tuple[Positive, ...]
    patterns: tuple[str, ...]
    silent_step_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class RealApplications:
    """Settings of F10. `lengths_s`: run times alone of the input files. The rest as in `Synthetic`."""

    nodes: Whole
    processors: Whole
    mpl: Whole
    loads: tuple[Positive, ...]
    shown: Positive
    lengths_s: tuple[Positive, ...]
    bound_s: Positive
    increment_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSettings:
    """Contents of `configs/dynamic.yaml`.

    model: a key of `apples_experiments.lublin.MODELS`
    keeps_up: share of the offered load that an unsaturated machine accepts
    full_load: an offered load that keeps the queue full
    """

    jobs: Whole
    seeds: Seeds
    model: str
    policies: tuple[str, ...]
    vary: str
    request_factor: Positive
    keeps_up: Share
    full_load: Positive
    quick: Quick
    synthetic: Synthetic
    applications: RealApplications

    def __post_init__(self) -> None:
        """Raise `apples.errors.ConfigError` with every illegal value."""
        legal = tuple(ALGORITHMS.values())
        problems = [
            f"policy {policy!r} is unknown here; legal are {', '.join(legal)}"
            for policy in self.policies
            if policy not in legal
        ]
        if self.model not in MODELS:
            problems.append(f"model is {self.model!r}; legal are {', '.join(MODELS)}")
        if not self.policies:
            problems.append(f"no policy to run; legal are one or more of {', '.join(legal)}")
        if self.jobs < 2:
            problems.append(f"{self.jobs} jobs; a workload has 2 or more")
        if self.vary not in VARIED:
            problems.append(f"load is varied by {self.vary!r}; legal are {', '.join(VARIED)}")
        problems += [
            f"loads {list(loads)}; legal are one or more, ascending and above 0"
            for loads in dict.fromkeys((self.synthetic.loads, self.applications.loads))
            if not loads or list(loads) != sorted(set(loads)) or loads[0] <= 0
        ]
        if problems:
            raise ConfigError(problems)

    def as_json(self) -> dict[str, Any]:
        """Return the constants, JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Values that a user gives in place of the settings; None keeps a setting."""

    quick: bool = False
    jobs: int | None = None
    seeds: tuple[int, ...] | None = None
    loads: tuple[float, ...] | None = None
    policies: tuple[str, ...] | None = None
    vary: str | None = None

    def applied(self, settings: DynamicSettings) -> DynamicSettings:
        """Return the settings with these values, which take precedence over those of `quick`. Raises `ConfigError`."""
        named: dict[str, Any] = {
            name: value
            for name in ("jobs", "seeds", "policies", "vary")
            if (value := getattr(self, name)) is not None
        }
        loads = self.loads
        if self.quick:
            named = {"jobs": settings.quick.jobs, "seeds": settings.quick.seeds, **named}
            loads = loads or settings.quick.loads
        if loads is not None:
            loads = tuple(sorted(set(loads)))
            named["synthetic"] = replace(
                settings.synthetic, loads=loads, shown=_nearest(loads, settings.synthetic.shown)
            )
            named["applications"] = replace(
                settings.applications, loads=loads, shown=_nearest(loads, settings.applications.shown)
            )
        return replace(settings, **named)


def _nearest(loads: tuple[float, ...], load: float) -> float:
    """Return the nearest load of the sweep."""
    return min(loads, key=lambda other: abs(other - load), default=load)


def load_settings(name: str = "dynamic") -> DynamicSettings:
    """Return the settings; raise `ConfigError` with every problem of the file."""
    return read_settings(name, DynamicSettings)
