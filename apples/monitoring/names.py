"""Names of the monitor: its library, its variables, and legal job names.

Job names are used without quotes in file names, environments and lines of JSON.
"""

import re

from apples.errors import ConfigError

#: Name of the library in a run directory. Host agents do not send back files whose names begin with a dot.
LIBRARY = ".monitor.so"
#: Environment variables of a rank: the directory of its pages, and the name of its job.
DIRECTORY_VARIABLE, JOB_VARIABLE = "APPLES_MONITOR", "APPLES_JOB"

#: Ways to wait among which adaptive ranks choose, and the variable with that of their begin; `shim/wait.c` has both.
WAYS = ("mpi", "yield", "patient", "block")
FIRST_VARIABLE = "APPLES_WAIT_FIRST"

#: Characters of the longest name.
LONGEST = 64
LEGAL = f"1 to {LONGEST} letters, digits, dots, underscores and dashes, but not '.' or '..'"

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}", re.ASCII)


def check_job(job: str, *, what: str = "job") -> str:
    """Return the name if it is legal for a job; raises `ConfigError` with `what` as the kind of name."""
    if not _NAME.fullmatch(job) or job in (".", ".."):
        raise ConfigError(f"{what} {job!r}: expected {LEGAL}")
    return job
