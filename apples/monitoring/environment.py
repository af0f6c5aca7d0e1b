"""Directory of monitor pages, and the variables that load the monitor into a program.

Starts nothing. The launcher of a job makes the directory (`make_directory`), adds `monitor_environment` to the
environment of `mpiexec` and reads the pages (`pages`) during or after the run.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from apples.coscheduling.events import Wait
from apples.errors import MonitorError
from apples.monitoring.build import monitor_library
from apples.monitoring.counters import PageCounters
from apples.monitoring.names import DIRECTORY_VARIABLE, JOB_VARIABLE, check_job
from apples.monitoring.page import MonitorPage
from nws.base.scratch import SHARED_MEMORY, ScratchDirectory

#: Spin time of FCS (paper, Table 2).
SPIN_S = 120e-6

#: Legal values of `--wait` and `APPLES_WAIT`: how processes wait, None as their MPI does.
WAITS = {"block": Wait.SPIN_BLOCK, "adaptive": Wait.ADAPTIVE, "poll": Wait.POLL, "mpi": None}
_WORDS = {wait: word for word, wait in WAITS.items()}


#: Variables that are lists of paths, separated by colons.
PATH_LISTS = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH"})


@contextlib.contextmanager
def page_directory(notify: Callable[[str], None] | None = None) -> Iterator[Path]:
    """Yield a new directory in shared memory for the pages of a job, removed at the end; raises `MonitorError`.

    notify : gets a line if killed commands had left some
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(ScratchDirectory("apples-monitor-", SHARED_MEMORY, notify=notify))
        except OSError as error:
            raise MonitorError(
                f"{SHARED_MEMORY}: no directory for the monitor's pages ({error.strerror}); mount a tmpfs there that "
                "this user may write"
            ) from error
        yield directory


def monitor_environment(
    directory: Path,
    job: str,
    *,
    wait: Wait | None = None,
    spin_s: float = SPIN_S,
    base: Mapping[str, str] | None = None,
    library: Path | None = None,
) -> dict[str, str]:
    """Return variables that make every MPI program write a page; builds the library if necessary.

    Args:
        library: Path of the library on the hosts of the ranks; None for its path here.
        wait: How processes wait from the start; None as their MPI does, until a node manager changes the value.
        spin_s: Seconds for which a process spins before it blocks.
        base: Environment to which the variables are added, by default that of this process.

    Raises:
        ConfigError: Illegal job name.
        MonitorError: No compiler, for example.
    """
    check_job(job)
    library = monitor_library() if library is None else library
    preloaded = (os.environ if base is None else base).get("LD_PRELOAD", "")
    variables = {
        "LD_PRELOAD": f"{preloaded}:{library}" if preloaded else str(library),
        DIRECTORY_VARIABLE: str(directory),
        JOB_VARIABLE: job,
        "APPLES_SPIN_US": f"{spin_s * 1e6:.6g}",
    }
    if wait is not None:
        variables["APPLES_WAIT"] = _WORDS[wait]
    return variables


def joined(program: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program with those that a run adds; lists of paths that both have become one list."""
    paths = {
        name: ":".join(dict.fromkeys([*program[name].split(":"), *added[name].split(":")]))
        for name in PATH_LISTS & program.keys() & added.keys()
        if program[name]
    }
    return {**program, **added, **paths}


def bell_paths(directory: Path, job: str) -> list[Path]:
    """Return the paths of the job's bell (who sleeps, and the pipe that wakes) and of its list of ranks."""
    return [directory / f"{job}.bell", directory / f"{job}.rope", directory / f".{job}.world"]


def page_paths(directory: Path, job: str) -> list[Path]:
    """Return the paths of a job's pages, in rank order; raises `MonitorError` if the directory does not exist."""
    prefix = f"{check_job(job)}."
    paths = []
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise MonitorError(
            f"{directory}: pages of the monitor cannot be looked for: {error.strerror}; "
            "name the directory that the job was started with (APPLES_MONITOR)"
        ) from error
    for name in names:
        rank = name.removeprefix(prefix)
        if name.startswith(prefix) and rank.isascii() and rank.isdigit():
            paths.append((int(rank), directory / name))
    return [path for _, path in sorted(paths)]


def pages(directory: Path, job: str) -> list[MonitorPage]:
    """Return the open pages of a job's ranks, in rank order; files that are no pages (yet) are skipped."""
    counters = []
    for path in page_paths(directory, job):
        with contextlib.suppress(MonitorError):
            counters.append(MonitorPage.attach(path))
    return counters


def figures_of(directory: Path, job: str) -> list[PageCounters]:
    """Return the values of the ranks of a job that have begun MPI, in rank order; raises `MonitorError`."""
    counters = pages(directory, job)
    try:
        return [page.figures() for page in counters]
    finally:
        for page in counters:
            page.close()


def remove_pages(directory: Path, job: str) -> None:
    """Remove the pages and the bell of a job."""
    for path in [*page_paths(directory, job), *bell_paths(directory, job)]:
        path.unlink(missing_ok=True)
