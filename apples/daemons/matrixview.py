"""The part of the Ousterhout matrix that one node needs, and its form on the wire.

`jobs` has every job with a process on the node, waiting ones too; `rows` has the node's own columns only. `version`
counts the changes of the matrix: a beat names the version whose row it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apples.ipc.wire import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One slot on one node. jobs : by processor, whose it is.  fill : by processor, who may use it besides"""

    jobs: Mapping[int, str] = field(default_factory=dict)
    fill: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job.

    slot : its row, None while it waits.  nodes : by rank, where each of its processes is, all over the machine
    processors : by rank, the processor of those on this node
    """

    slot: int | None
    nodes: tuple[str, ...]
    processors: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """What a node knows. settled : a manager that has just started does not know of all jobs yet"""

    version: int = 0
    settled: bool = False
    rows: Mapping[int, MatrixRow] = field(default_factory=dict)
    jobs: Mapping[str, JobView] = field(default_factory=dict)

    def as_json(self) -> Json:
        """For the wire; JSON has text as keys only."""
        return {
            "version": self.version,
            "settled": self.settled,
            "rows": {
                str(slot): {"jobs": _texts(row.jobs), "fill": _texts(row.fill)}
                for slot, row in self.rows.items()
            },
            "jobs": {job: job_json(view) for job, view in self.jobs.items()},
        }

    @staticmethod
    def of_json(document: Mapping[str, Any]) -> MatrixView:
        """From the wire; its sender holds the key, so it is taken at its word."""
        return MatrixView(
            version=document["version"],
            settled=document["settled"],
            rows={
                int(slot): MatrixRow(jobs=_numbers(row["jobs"]), fill=_numbers(row["fill"]))
                for slot, row in document["rows"].items()
            },
            jobs={job: job_of_json(entry) for job, entry in document["jobs"].items()},
        )


def job_json(view: JobView) -> Json:
    """One job for the wire."""
    return {"slot": view.slot, "nodes": list(view.nodes), "processors": _texts(view.processors)}


def job_of_json(entry: Mapping[str, Any]) -> JobView:
    """One job from the wire."""
    return JobView(
        slot=entry["slot"], nodes=tuple(entry["nodes"]), processors=_numbers(entry.get("processors", {}))
    )


def _texts(numbered: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in numbered.items()}


def _numbers(texts: Mapping[str, Any]) -> dict[int, Any]:
    return {int(text): value for text, value in texts.items()}
