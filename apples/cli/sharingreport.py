"""Report of a coscheduled job: by rank its class, its times, and the time it was stopped."""

from collections.abc import Iterable, Mapping
from typing import Any

from apples.cli.report import seconds, table


def sharing_lines(sharing: Mapping[str, Any]) -> list[str]:
    """Return the lines on a run that shared its hosts: by a node manager, or by its own waits."""
    if "ranks" in sharing:
        beside = [
            f"{'fits' if one['fits'] else 'does not fit'} beside {job}: {one['own']:.2f} × its own time alone, "
            f"{one['other']:.2f} × that of {job}"
            for job, one in sharing.get("beside", {}).items()
        ]
        return process_lines(sharing["ranks"]) + beside
    waited_s, used_s = sharing["waited_s"], sharing["used_s"]
    return [
        f"ranks waited {seconds(waited_s)} in MPI, slept {sharing['sleeps']} times and used {seconds(used_s)} of CPU "
        "time for it"
    ]


def process_lines(processes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a table of the ranks, and the efficiencies if they were measured."""
    from apples.daemons.client import efficiencies

    known = sorted(processes, key=lambda process: int(process["rank"]))
    if not known:
        return ["no rank of the job has registered with the node manager; see its messages above"]
    times = ("t_cpu", "t_comm", "granularity", "stopped")
    rows = [
        [
            f"rank {process['rank']}",
            process["class"] or None,
            *(seconds(process[f"{name}_s"]) for name in times),
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
