"""Runs one of Slurm's commands and returns its output; every failure is an error that names the remedy."""

import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime

from apples.errors import LaunchError, ProgramNotFound
from apples.slurm.commands import clean_environment
from apples.slurm.meanings import meaning
from apples.slurm.records import Job, Node, parse_job, parse_nodes
from nws.base.program import ProgramFailed, output_of

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
    words = [find(command[0]), *command[1:]]
    try:
        return output(words, limit_s)
    except ProgramFailed as failed:
        raise LaunchError(f"{command[0]}: {meaning(failed.stderr, failed.code)}") from None


def tried(command: Sequence[str], *, limit_s: float = ANSWER_S) -> str:
    """Return the output of a command that is useful but not needed; empty if it fails."""
    try:
        return output([find(command[0]), *command[1:]], limit_s)
    except ProgramFailed:
        return ""


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


def output(words: Sequence[str], limit_s: float) -> str:
    """Return the output of a command without the variables of an enclosing job; raises `ProgramFailed`."""
    return output_of(words, limit_s=limit_s, environment=slurm_environment())
