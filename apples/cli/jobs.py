"""`apples jobs`: jobs that share the hosts, as tables, a live table, or one JSON document. Nothing is decided here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from apples.cli.report import table, watch
from nws.base.command import FILE

if TYPE_CHECKING:
    from apples.daemons.nodeclient import MachineState
    from apples.daemons.nodemessages import MachineView, NodeStatus

_NO_JOBS = "no jobs share these hosts now"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--watch", "watching", is_flag=True, help="Show it anew every second, until interrupted.")
@click.option("--socket", type=FILE, help="Socket of the node manager to ask.")
def jobs(as_json: bool, watching: bool, socket: Path | None) -> int:
    """Show jobs, slots and classes, times of each rank, and the nodes with their last heartbeat."""
    from apples.daemons.nodeclient import survey
    from apples.errors import ConfigError

    if as_json and watching:
        raise ConfigError("--json and --watch exclude each other; give one of them")
    machine = survey(socket)
    if as_json:
        click.echo(json.dumps(machine.document()))
    elif watching:
        watch(machine, lambda: survey(socket), lines)
    else:
        click.echo("\n".join(lines(machine)))
    return 0


def lines(machine: MachineState) -> list[str]:
    """Return all tables and notes as text lines."""
    tables = [line for header, rows in _tables(machine) for line in ["", *table(header, rows)]]
    return [*_heading(machine), *tables, *_notes(machine)]


def _heading(machine: MachineState) -> list[str]:
    """Return the line on the machine manager if there is one, and one if there are no jobs."""
    return [
        *([_manager_line(machine.manager)] if machine.manager else []),
        *([] if machine.jobs else [_NO_JOBS]),
    ]


def _tables(machine: MachineState) -> list[tuple[list[str], list[list[object]]]]:
    """Return the job and node tables; without jobs, the node table only."""
    about_jobs = [_job_rows(machine), _process_rows(machine)] if machine.jobs else []
    return [*about_jobs, _node_rows(machine)]


def _manager_line(manager: MachineView) -> str:
    late = manager.late_s
    return (
        f"manager {manager.place}: {manager.policy}, slices of {_ms(manager.slice_s)}, beats late by "
        f"{_ms(late.p50)} (half of them), {_ms(late.p95)} (p95), {_ms(late.most)} at most; "
        f"{manager.left_out} of {manager.beats + manager.left_out} left out"
    )


def _job_rows(machine: MachineState) -> tuple[list[str], list[list[object]]]:
    header = ["job", "state", "slot", "ranks", "nodes", "efficiency", "balance", "communication", "CPU share"]
    rows: list[list[object]] = []
    for name, job in machine.jobs.items():
        measured = job.efficiencies or {}
        registered = len(job.processes) if job.registered is UNSET else job.registered
        rows.append(
            [
                name,
                job.state,
                job.slot,
                job.ranks if registered == job.ranks else f"{registered} of {job.ranks}",
                len({process.node for process in job.processes}),
                *(
                    _percent(measured.get(key))
                    for key in ("parallel", "load_balance", "communication", "cpu_share")
                ),
            ]
        )
    return header, rows


def _process_rows(machine: MachineState) -> tuple[list[str], list[list[object]]]:
    header = ["job", "rank", "node", "now", "class", "T_cpu", "T_comm", "granularity", "stopped"]
    contended = {name: node.report.contended for name, node in machine.nodes.items() if node.report}
    rows: list[list[object]] = [
        [
            name,
            process.rank,
            process.node,
            f"{process.state}, contended" if name in contended[str(process.node)] else process.state,
            process.process_class or None,
            _seconds(process.t_cpu_s),
            _seconds(process.t_comm_s),
            _ms(process.granularity_s),
            _seconds(process.stopped_s),
        ]
        for name, job in machine.jobs.items()
        for process in job.processes
    ]
    return header, rows


def _node_rows(machine: MachineState) -> tuple[list[str], list[list[object]]]:
    header = ["node", "policy", "processors", "slots", "processes", "beat", "heard"]
    rows: list[list[object]] = []
    for name, node in machine.nodes.items():
        report, heard = node.report, f"{node.heard_s:.1f} s ago"
        if report is None:
            rows.append([name, None, None, None, 0, "none", heard])
        else:
            shape = (report.policy, report.processors, report.slots, len(report.processes))
            rows.append([name, *shape, _beat(report, silent=node.silent), heard])
    return header, rows


def _beat(report: NodeStatus, *, silent: bool) -> str:
    if report.scheduled:
        return f"{report.scheduled} scheduled"
    if not report.manager:
        return "none"
    return "silent" if silent else "heard"


def _notes(machine: MachineState) -> list[str]:
    refused = {
        (process.job, process.refused)
        for job in machine.jobs.values()
        for process in job.processes
        if process.refused
    }
    return [f"job {job} runs freely: {why}" for job, why in sorted(refused)]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value * 1e3:.3g} ms"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
