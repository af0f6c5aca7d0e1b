"""Admission control of the simulated machine: when and where jobs start, if not first come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from apples.coscheduling.policies import PolicyKind
from apples.errors import ConfigError
from apples_experiments.cluster.workload import BspJob


class Placement(NamedTuple):
    """Start of a job. `nodes`: node of each rank.  `slot`: row of the matrix, if the policy has one"""

    job: str
    nodes: tuple[int, ...]
    slot: int


class AdmissionControl(Protocol):
    """A queue in front of the machine. At one instant it gets all ends, then all submissions, then is asked.

    If a machine manager keeps a matrix, admitted jobs must fit into it: ended jobs have been removed and
    rows unified, as `apples.coscheduling.matrix.OusterhoutMatrix.remove` does.
    """

    @property
    def mpl(self) -> int:
        """Largest number of ranks that ever share a processor."""

    def submitted(self, job: BspJob, now_s: float) -> None:
        """Add a submitted job, which has no nodes yet."""

    def ended(self, job: str, now_s: float) -> None:
        """Remove a job after the end of its last rank."""

    def admit(self, now_s: float) -> Sequence[Placement]:
        """Return the jobs that start now, in order."""


def check_limits(
    kind: PolicyKind, *, at_once: int | None, degree: int | None, admission: AdmissionControl | None
) -> None:
    """Raise `apples.errors.ConfigError` for limits below 1, or two limits that contradict each other."""
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
