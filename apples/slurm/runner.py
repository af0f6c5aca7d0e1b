"""Runs one of Slurm's commands and returns its output; every failure is an error that names the remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime

from apples.errors import LaunchError, ProgramNotFound
from apples.slurm.commands import clean_environment
from apples.slurm.meanings import meaning
from apples.slurm.records import Job, Node, parse_job, parse_nodes

#: Seconds a question to the controller may take.
ANSWER_S = 20.0


def find(name: str) -> str:
    """Return the path of one of Slurm's commands; raises `ProgramNotFound`."""
    found = shutil.which(name)
    if found is None:
        raise ProgramNotFound(
            f"{name} is in none of the directories of PATH, and --launcher slurm works with it; run this on a machine "
            "of a Slurm cluster (Debian: slurm-client), or use --launcher ssh"
        )
    return found


def asked(command: Sequence[str], *, limit_s: float = ANSWER_S) -> str:
    """Return the output of a command; raises `ProgramNotFound` without Slurm, else `LaunchError` with the reason."""
    result = _run(command, limit_s)
    if isinstance(result, str):
        raise LaunchError(f"{command[0]}: {result}")
    return result.stdout


def tried(command: Sequence[str], *, limit_s: float = ANSWER_S) -> str:
    """Return the output of a command, empty if it fails: for information that is optional."""
    result = _run(command, limit_s)
    return "" if isinstance(result, str) else result.stdout


def job(number: str) -> Job | None:
    """Return a job in Slurm's memory, None if it is not there, or Slurm does not answer."""
    return parse_job(tried(["scontrol", "-o", "show", "job", number]), datetime.now())


def nodes() -> dict[str, Node]:
    """Return all nodes; raises `LaunchError` if the controller does not answer."""
    return parse_nodes(asked(["scontrol", "-o", "show", "nodes"]))


def slurm_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without the variables of an enclosing job or step."""
    return clean_environment(os.environ if environment is None else environment)


def without_enclosing() -> list[str]:
    """Return a command prefix that removes the variables of an enclosing job from the environment."""
    clean = slurm_environment()
    removed = [name for name in os.environ if name not in clean]
    return ["/usr/bin/env", *(word for name in removed for word in ("-u", name))] if removed else []


def ended(words: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command without the variables of an enclosing job; raises `subprocess.TimeoutExpired`."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        env=slurm_environment(),
        start_new_session=True,
        check=False,
    )


def _run(command: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str] | str:
    """Return the result, or the reason of the failure."""
    try:
        result = ended([find(command[0]), *command[1:]], limit_s)
    except subprocess.TimeoutExpired as expired:
        stderr = expired.stderr or b""
        return meaning(stderr.decode(errors="replace") if isinstance(stderr, bytes) else stderr)
    return result if result.returncode == 0 else meaning(result.stderr, result.returncode)
