"""A cluster's partitions, jobs and reservations, parsed from the tables of `sinfo`, `squeue` and `scontrol`. Pure.

Times are local times of the site, in seconds since the epoch as if the site were in UTC, as in `sacct`'s history. A
line that cannot be read is counted and left out. Source: the manual pages sinfo(1), squeue(1) and scontrol(1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from apples.errors import ConfigError
from apples.platforms.clusterqueue import ClusterJob, ClusterQueue, NodeReservation, Section, SeenJob
from apples.queueing.jobs import QueueJob
from apples.simulation.batch.sacct import time_s
from apples.slurm.meanings import AWAY
from apples.slurm.records import fields
from nws.base.durations import slurm_seconds
from nws.base.hostlist import expand

SINFO = ("sinfo", "--all", "--Node", "--format=%N|%P|%T|%c|%l|%h|%a|%p")
SQUEUE = ("squeue", "--all", "--array", "--format=%i|%P|%u|%a|%T|%C|%D|%l|%M|%V|%S|%Q|%r|%N")
RESERVATIONS = ("scontrol", "--oneliner", "show", "reservation")

#: Reasons for which a job waits that do not depend on processors: it is in nobody's way.
_APART = (
    "Dependency",
    "JobHeld",
    "BeginTime",
    "Assoc",
    "QOS",
    "JobArrayTaskLimit",
    "Reservation",
    "launch failed",
)

_RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING")

#: States of a node whose processors a reservation of our list has.
_BY_RESERVATION = ("MAINT", "RESERVED")

#: Run time without a limit, s: 30 days.
UNLIMITED_S = 30 * 86400.0


class _NodeRow(NamedTuple):
    """A line of `SINFO`: one node in one partition."""

    nodelist: str
    partition: str
    state: str
    cpus: str
    timelimit: str
    oversubscribe: str
    avail: str
    prio_tier: str


class _JobRow(NamedTuple):
    """A line of `SQUEUE`."""

    jobid: str
    partition: str
    user: str
    account: str
    state: str
    cpus: str
    nodes: str
    time_limit: str
    time: str
    submit_time: str
    start_time: str
    priority: str
    reason: str
    nodelist: str


_Row = TypeVar("_Row", _NodeRow, _JobRow)


def parse_queue(sinfo: str, squeue: str, reservations: str = "") -> ClusterQueue:
    """Return the cluster; raise `ConfigError` if a table has no header, or there is no partition."""
    unread: Counter[str] = Counter()
    reserved = tuple(_reservations(reservations, unread))
    by_reservation = {node for one in reserved for node in one.nodes}
    rows: dict[str, list[_NodeRow]] = {}
    for row in _rows(sinfo, _NodeRow, SINFO, unread):
        rows.setdefault(row.partition.rstrip("*"), []).append(row)
    sections = {name: _section(name, lines, by_reservation, unread) for name, lines in rows.items()}
    if not sections:
        raise ConfigError("sinfo names no partition; make its table with " + command_line(SINFO))
    jobs = [_job(row) for row in _rows(squeue, _JobRow, SQUEUE, unread)]
    unread["squeue: a job without numbers or times"] += jobs.count(None)
    return ClusterQueue(
        sections=sections,
        jobs=tuple(job for job in jobs if job is not None),
        reservations=reserved,
        unread={reason: count for reason, count in unread.items() if count},
    )


def command_line(words: Sequence[str]) -> str:
    """Return the command that prints a table, for a shell."""
    return " ".join(f"'{word}'" if "|" in word else word for word in words)


def _rows(text: str, kind: type[_Row], command: Sequence[str], unread: Counter[str]) -> Iterator[_Row]:
    """Yield the lines of a table; modules and profiles may have printed before its header."""
    columns = [name.upper() for name in kind._fields]
    lines = iter(text.splitlines())
    for line in lines:
        titles = [title.strip() for title in line.split("|")]
        if not set(columns) - set(titles):
            break
    else:
        raise ConfigError(
            f"{command[0]}: no header with the columns {'|'.join(columns)}; "
            f"make its table with {command_line(command)}"
        )
    order = [titles.index(column) for column in columns]
    for line in lines:
        values = [value.strip() for value in line.split("|")]
        if len(values) == len(titles):
            yield kind(*(values[index] for index in order))
        elif line.strip():
            unread[f"{command[0]}: another number of columns than the header"] += 1


def _section(name: str, rows: Sequence[_NodeRow], by_reservation: set[str], unread: Counter[str]) -> Section:
    first = rows[0]
    kind, _, count = first.oversubscribe.partition(":")
    times = _number(count) or 4 if kind == "FORCE" else 1
    cpus = {}
    for row in rows:
        amount = _number(row.cpus)
        states = {word.strip("*$%~#!@^-").upper() for word in row.state.split("+")}
        away = [state for state in states if state in AWAY]
        if row.nodelist in by_reservation:
            away = [state for state in away if state not in _BY_RESERVATION]
        if amount is None:
            unread["sinfo: a node without a number of CPUs"] += 1
        elif not away and "*" not in row.state and row.avail == "up":
            cpus[row.nodelist] = amount * times
    limit_s = slurm_seconds(first.timelimit)
    return Section(
        name=name,
        cpus=cpus,
        default=first.partition.endswith("*"),
        limit_s=math.inf if math.isnan(limit_s) else limit_s,
        exclusive=kind == "EXCLUSIVE",
        tier=_number(first.prio_tier) or 1,
    )


def _job(row: _JobRow) -> ClusterJob | None:
    """Return the job of a line; None if it lacks a number or a time, or if it neither waits nor runs."""
    running = row.state in _RUNNING
    cpus, nodes, submit_s = _number(row.cpus), _number(row.nodes), time_s(row.submit_time)
    start_s = time_s(row.start_time) if running else math.inf
    limit_s = slurm_seconds(row.time_limit)
    waiting = row.state == "PENDING"
    if not cpus or nodes is None or submit_s is None or start_s is None or not (running or waiting):
        return None
    job = QueueJob(
        id=0,
        procs=cpus,
        request_s=limit_s if 0 < limit_s < math.inf else UNLIMITED_S,
        submit_s=submit_s,
        user=row.user,
        project=row.account,
    )
    return ClusterJob(
        seen=SeenJob(number=row.jobid, job=job, start_s=start_s),
        partitions=tuple(row.partition.split(",")),
        nodes=nodes,
        hosts=_nodes(row.nodelist) if running else (),
        present_s=start_s + slurm_seconds(row.time) if running else math.nan,
        priority=float(_number(row.priority) or 0),
        apart=row.reason.strip("()").startswith(_APART),
    )


def _reservations(text: str, unread: Counter[str]) -> Iterator[NodeReservation]:
    for line in text.splitlines():
        values = fields(line)
        if not values.get("ReservationName"):
            continue
        start_s, end_s = (time_s(values.get(key, "")) for key in ("StartTime", "EndTime"))
        nodes = _nodes(values.get("Nodes", ""))
        if start_s is None or end_s is None or not nodes:
            unread["scontrol: a reservation without times or nodes"] += 1
        else:
            yield NodeReservation(name=values["ReservationName"], nodes=nodes, start_s=start_s, end_s=end_s)


def _nodes(text: str) -> tuple[str, ...]:
    """Return the names of a host list; none if it cannot be read."""
    try:
        return expand(text) if text and not text.startswith("(") else ()
    except ConfigError:
        return ()


def _number(text: str) -> int | None:
    """Return a whole number; None for other text, or more than a cluster has. `sinfo` writes 4+ for 4 or more."""
    digits = text.removesuffix("+")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else None
