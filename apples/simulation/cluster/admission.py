"""Who lets jobs into the simulated machine, when and where, if it is not first come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from apples.coscheduling.policies import PolicyKind
from apples.errors import ConfigError
from apples.simulation.cluster.workload import BspJob


class Placement(NamedTuple):
    """A job starts. nodes : node of each rank, by number.  slot : row of the matrix, where policies have one"""

    job: str
    nodes: tuple[int, ...]
    slot: int


class AdmissionControl(Protocol):
    """A queue in front of the machine. At one instant it hears of all ends, then of all submissions, then is asked.

    Where a machine manager keeps a matrix, what is let in must fit into it: jobs that left have been taken out and
    rows unified, as `apples.coscheduling.matrix.OusterhoutMatrix.remove` does.
    """

    @property
    def mpl(self) -> int:
        """The most ranks that ever share a processor."""

    def submitted(self, job: BspJob, now_s: float) -> None:
        """A job has come; where its ranks are to run is not decided."""

    def ended(self, job: str, now_s: float) -> None:
        """The last rank of a job has ended."""

    def admit(self, now_s: float) -> Sequence[Placement]:
        """Who starts now, in this order."""


def check_limits(
    kind: PolicyKind, *, at_once: int | None, degree: int | None, admission: AdmissionControl | None
) -> None:
    """Raise `apples.errors.ConfigError` for limits below 1, or that say twice who lets jobs in."""
    problems = [
        f"{name} is {limit}, legal is a whole number from 1, or None for no limit"
        for name, limit in (("at_once", at_once), ("degree", degree))
        if limit is not None and limit < 1
    ]
    if degree is not None and kind.coordinated:
        problems.append(
            f"degree is {degree}, but under {kind.name} the machine manager places jobs; legal is None"
        )
    if admission is not None and (at_once, degree) != (None, None):
        problems.append("admission control limits the jobs itself; legal is no at_once and no degree")
    if problems:
        raise ConfigError(problems)
