"""Settings of adaptation, with their reasons; `--adapt-settings FILE` reads them from YAML."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from apples.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabSettings:
    """When rows move between ranks.

    report_every_s : seconds between lines of progress
    minimum_gain : a move must shorten the remaining run by at least this fraction
    cost_factor : a move must save this many times its cost
    least_reports : stretches of a run that must agree before rows move
    sureness : standard errors by which a gain must exceed noise
    opposite_factor : factor on `least_reports` before rows move back
    allowance : fraction of the run's time that moves may lose in all, against the plan's slabs, until they are undone
    """

    report_every_s: float = 0.5
    minimum_gain: float = 0.05
    cost_factor: float = 3.0
    least_reports: int = 4
    sureness: float = 3.0
    opposite_factor: int = 4
    allowance: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """When a run is ended and resumed on other hosts.

    minimum_gain : the remaining run must become shorter by this fraction, with all costs of the change
    look_every_s : seconds between samples of the pool; a sample disturbs the hosts slightly
    looks : consecutive samples that must agree.  wait_s : pause after the start and after a change
    most_changes : of hosts in one run
    """

    minimum_gain: float = 0.2
    look_every_s: float = 30.0
    looks: int = 2
    wait_s: float = 20.0
    most_changes: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptSettings:
    """All settings of adaptation, by part."""

    slabs: SlabSettings = field(default_factory=SlabSettings)
    hosts: HostSettings = field(default_factory=HostSettings)

    def __post_init__(self) -> None:
        problems = [*_negative("slabs", self.slabs), *_negative("hosts", self.hosts)]
        if self.slabs.least_reports < 2:
            problems.append(
                f"slabs: least_reports {self.slabs.least_reports}: two stretches at least can agree"
            )
        for name, part in (("slabs", self.slabs), ("hosts", self.hosts)):
            if part.minimum_gain >= 1:
                problems.append(
                    f"{name}: minimum_gain {part.minimum_gain}: expected a fraction of what is left, below 1"
                )
        if problems:
            raise ConfigError(problems)


def _negative(name: str, part: SlabSettings | HostSettings) -> Sequence[str]:
    values = [(field.name, getattr(part, field.name)) for field in fields(part)]
    return [f"{name}: {key} {value}: expected 0 or more" for key, value in values if not value >= 0]
