"""Report of a coscheduled job: by rank its class, its times, and the time it was stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apples.cli.report import seconds, table


def sharing_lines(processes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a table of the ranks, and the efficiencies if they were measured."""
    from apples.daemons.client import efficiencies

    known = sorted(processes, key=lambda process: int(process["rank"]))
    if not known:
        return ["no rank of the job has registered with the node manager; see its messages above"]
    rows = [
        [
            f"rank {process['rank']}",
            process["class"] or "-",
            seconds(process["t_cpu_s"]),
            seconds(process["t_comm_s"]),
            seconds(process["granularity_s"]),
            seconds(process["stopped_s"]),
        ]
        for process in known
    ]
    lines = table(["shared", "class", "T_cpu", "T_comm", "granularity", "stopped"], rows)
    measured = efficiencies(known)
    if measured is not None:
        lines.append(
            f"parallel efficiency {measured['parallel']:.0%} = load balance {measured['load_balance']:.0%} × "
            f"communication {measured['communication']:.0%} × CPU share {measured['cpu_share']:.0%} × "
            f"activity {measured['activity']:.0%}"
        )
    return lines
