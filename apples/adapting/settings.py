"""What a user may set of adaptation, with its reasons; `--adapt-settings FILE` reads it from YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from apples.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabSettings:
    """When rows move between ranks.

    report_every_s : seconds from one line of progress to the next
    minimum_gain : a move must shorten what is left by this fraction at least
    cost_factor : and save so many times what moving costs
    least_reports : stretches of a run that must agree before rows move
    sureness : standard errors by which a gain must be more than noise
    opposite_factor : times as many stretches must agree before rows move back
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

    minimum_gain : the rest of the run must become shorter by this fraction, with everything that the change costs
    look_every_s : seconds from one look at the pool to the next; a look disturbs the hosts a little
    looks : in a row that must agree.  wait_s : after the start, and after a change, before the next
    most_changes : of hosts in one run
    """

    minimum_gain: float = 0.2
    look_every_s: float = 30.0
    looks: int = 2
    wait_s: float = 20.0
    most_changes: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptSettings:
    """Everything, by part."""

    slabs: SlabSettings = field(default_factory=SlabSettings)
    hosts: HostSettings = field(default_factory=HostSettings)

    def __post_init__(self) -> None:
        """Raise `ConfigError` with every number that is out of its range."""
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
    found = [(field.name, getattr(part, field.name)) for field in fields(part)]
    return [f"{name}: {key} {value}: expected 0 or more" for key, value in found if not value >= 0]
