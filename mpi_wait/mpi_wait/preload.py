"""The library of this package, the stand-ins for launchers, and the variables that load the one and find the other."""

from __future__ import annotations

import os
from pathlib import Path

from mpi_wait.jobdirectory import JOB

LIBRARY = Path(__file__).resolve().parent / "libmpi-wait.so"
#: Directory of programs named as launchers, each of which runs the next one of that name with mpi-wait.
LAUNCHERS = LIBRARY.with_name("launchers")


def variables_of_job(directory: str, wait: str) -> dict[str, str]:
    """Return the environment of this process with the variables that load the library into the ranks of a job."""
    variables = dict(os.environ)
    # A node manager of AppLeS would change how ranks wait.
    variables.pop("APPLES_NODE_SOCKET", None)
    preloaded = [path for path in variables.get("LD_PRELOAD", "").split(":") if path and path != str(LIBRARY)]
    preloaded.append(str(LIBRARY))
    added = {"APPLES_MONITOR": directory, "APPLES_JOB": JOB, "APPLES_WAIT": wait}
    return {**variables, **added, "LD_PRELOAD": ":".join(preloaded)}


def without_stand_ins(path: str) -> list[str]:
    """Return the directories of PATH without that of the stand-ins."""
    return [
        directory for directory in path.split(os.pathsep) if os.path.realpath(directory) != str(LAUNCHERS)
    ]


def stand_ins_first(path: str) -> str:
    """Return PATH with the directory of the stand-ins before all others."""
    return os.pathsep.join([str(LAUNCHERS), *without_stand_ins(path)])
