"""The part of the Ousterhout matrix that one node needs, and its form on the wire.

`jobs` has every job with a process on the node, waiting ones too; `rows` has the node's own columns only. `version`
counts the changes of the matrix: a heartbeat names the version to whose rows it refers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apples.daemons.ipc.wire import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One slot on one node. `jobs`: owner by processor.  `fill`: by processor, a job that may use it while idle"""

    jobs: Mapping[int, str] = field(default_factory=dict)
    fill: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job.

    slot : its row, None while it waits.  nodes : node of each rank, on the whole machine
    processors : by rank, the processor of its processes on this node
    """

    slot: int | None
    nodes: tuple[str, ...]
    processors: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """A node's part of the matrix. `settled`: False while a restarted manager does not know all jobs yet"""

    version: int = 0
    settled: bool = False
    rows: Mapping[int, MatrixRow] = field(default_factory=dict)
    jobs: Mapping[str, JobView] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the document for the wire; JSON allows only text as keys."""
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
        """Return the view from a document. The sender holds the key, so its values are not checked again."""
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
    """Return the document of one job."""
    return {"slot": view.slot, "nodes": list(view.nodes), "processors": _texts(view.processors)}


def job_of_json(entry: Mapping[str, Any]) -> JobView:
    """Return one job from its document."""
    return JobView(
        slot=entry["slot"], nodes=tuple(entry["nodes"]), processors=_numbers(entry.get("processors", {}))
    )


def _texts(numbered: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in numbered.items()}


def _numbers(texts: Mapping[str, Any]) -> dict[int, Any]:
    return {int(text): value for text, value in texts.items()}
