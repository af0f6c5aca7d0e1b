"""The tables of a cluster: asked of Slurm's commands, or read from files that they printed. Nothing is changed."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from apples.errors import ConfigError
from apples.platforms.clusterqueue import Tables
from apples.simulation.batch.reading import sacct_lines
from apples.simulation.batch.sacct import COLUMNS, is_header, sacct_command, time_s
from apples.slurm import runner
from apples.slurm.queuetables import RESERVATIONS, SINFO, SQUEUE, command_line, parse_queue
from nws.base.files import read_regular
from nws.base.notes import step
from nws.base.oserrors import REASON, os_errors_as

#: A longer table is no table of a cluster.
_LONGEST_BYTES = 512 * 2**20

_HISTORY = (*COLUMNS, "Partition")
#: Older starts would hardly count.
_SINCE = "now-14days"

#: File of a directory → command that prints it. The first two are needed.
FILES = {
    "sinfo.txt": SINFO,
    "squeue.txt": SQUEUE,
    "reservations.txt": RESERVATIONS,
    "sacct.txt": sacct_command(_SINCE, _HISTORY),
}


def read_tables(directory: Path | None, at: str | None) -> Tables:
    """Return the tables in a directory, or Slurm's.

    Raises:
        ConfigError: a file is missing or is no table, or the instant of files is unknown.
        LaunchError: Slurm does not answer.  ProgramNotFound: it is not installed.
    """
    if directory is None:
        texts = [runner.asked(command) for command in (SINFO, SQUEUE, RESERVATIONS)]
        now_s = time_s(datetime.now().isoformat(timespec="seconds"))
        configuration = runner.tried(["scontrol", "show", "config"])
        named = re.search(r"^ClusterName\s*=\s*(\S+)", configuration, re.MULTILINE)
        cluster = named[1] if named else "cluster"
        texts.append(_site_history())
    else:
        texts, cluster, now_s = _read(directory), directory.resolve().name or "cluster", None
    *tables, history = texts
    queue = parse_queue(*tables)
    if at is not None and (now_s := time_s(at)) is None:
        raise ConfigError(f"--at {at}: expected a local time of the site, such as 2026-01-31T12:00:00")
    now_s = queue.present_s() if now_s is None else now_s
    if now_s is None:
        raise ConfigError(
            "squeue lists no running job, so the instant of the tables is unknown; give it with --at TIME"
        )
    lines = history.splitlines()
    header = next((number for number, line in enumerate(lines) if is_header(line)), len(lines))
    if header >= len(lines) - 1:
        step("sacct lists no ended job, so requests are taken for run times")
    return Tables(cluster=cluster, queue=queue, now_s=now_s, sacct=tuple(lines[header:]))


def _site_history() -> str:
    """Return sacct's table; empty, after a note, without accounting."""
    try:
        return "\n".join(sacct_lines(_SINCE, _HISTORY))
    except ConfigError as error:
        step(f"{error}; going on without it")
        return ""


def _read(directory: Path) -> list[str]:
    """Return the texts of the files; raise `ConfigError` if a needed one is missing."""
    paths = {directory / name: f"{command_line(command)} > {name}" for name, command in FILES.items()}
    missing = [f"{path}: is missing; make it with {how}" for path, how in paths.items() if not path.exists()]
    if any(not path.exists() for path in list(paths)[:2]):
        raise ConfigError(missing)
    texts = []
    for path in paths:
        with os_errors_as(ConfigError, f"{path}: cannot be read ({REASON})"):
            texts.append(read_regular(path, _LONGEST_BYTES).decode(errors="replace") if path.exists() else "")
    for problem in missing:
        step(problem)
    return texts
