"""The command `mpi-wait`: its options, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NoReturn, Sequence

from mpi_wait import __version__
from mpi_wait.hosts import other_hosts
from mpi_wait.jobdirectory import JobDirectory
from mpi_wait.preload import LAUNCHERS, LIBRARY, stand_ins_first, variables_of_job, without_stand_ins
from mpi_wait.process import end_like, run

WAITS = ("adaptive", "block", "poll", "mpi")
#: Variables of `--env`: how ranks wait, and the interpreter of the stand-ins.
WAIT_VARIABLE, PYTHON_VARIABLE = "MPI_WAIT", "MPI_WAIT_PYTHON"
FORMS = ("sh", "github", "gitlab")
#: A quotient of times per iteration below which MPI's own waits are reported to be faster.
FASTER = 0.97

DESCRIPTION = """Run COMMAND, for example `mpiexec -n 4 ./program`, so that ranks that wait for messages leave their
CPU to others where that is faster. The program is not changed: a small library is loaded before it (LD_PRELOAD)."""


def main() -> NoReturn:
    """Run the command; does not return."""
    parser = argparse.ArgumentParser(
        prog="mpi-wait",
        description=DESCRIPTION,
        usage="%(prog)s [--wait WAY] [--] COMMAND …\n       %(prog)s --env [FORM] | --check",
    )
    parser.add_argument("--version", action="version", version=f"mpi-wait {__version__}")
    parser.add_argument(
        "--wait",
        choices=WAITS,
        default=os.environ.get(WAIT_VARIABLE) or "adaptive",
        help="adaptive (default): the way that is measured to be the fastest while the program runs; block: poll for "
        f"120 µs, then sleep; poll: poll; mpi: as the MPI library does. The default is ${WAIT_VARIABLE}, if it is set",
    )
    parser.add_argument(
        "--env",
        nargs="?",
        choices=FORMS,
        const="sh",
        metavar="FORM",
        help='print lines that make every later mpiexec or mpirun use mpi-wait. sh: for `eval "$(mpi-wait --env)"`, '
        "gitlab: the same for before_script; github: for $GITHUB_ENV",
    )
    parser.add_argument("--check", action="store_true", help="test the MPI libraries of this machine")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if options.wait not in WAITS:
        parser.error(f"{WAIT_VARIABLE} is {options.wait!r}; expected one of {', '.join(WAITS)}")
    if (options.env is not None) + options.check + bool(command) != 1:
        parser.error("expected one of COMMAND, --env and --check")
    check_library(LIBRARY)
    if options.env is not None:
        print("\n".join(lines_for(options.env, options.wait)))
        sys.exit(0)
    if options.check:
        from mpi_wait.check import check

        sys.exit(check())
    start(command, options.wait, is_launcher=(LAUNCHERS / os.path.basename(command[0])).exists())


def stand_in(launcher: str, arguments: Sequence[str]) -> NoReturn:
    """Run the launcher of this name that comes after the stand-ins in PATH; does not return."""
    check_library(LIBRARY)
    path = os.pathsep.join(without_stand_ins(os.environ.get("PATH", os.defpath)))
    program = shutil.which(launcher, path=path)
    if program is None:
        fail(f"{launcher}: no such program in PATH after {LAUNCHERS}; install an MPI library", 127)
    wait = os.environ.get(WAIT_VARIABLE) or WAITS[0]
    start([program, *arguments], wait, is_launcher=True, stands_in=True)


def start(command: Sequence[str], wait: str, *, is_launcher: bool, stands_in: bool = False) -> NoReturn:
    """Run a command with the library, and end as it does."""
    if is_launcher and (hosts := other_hosts(command, os.environ)):
        note(
            f"other hosts ({', '.join(hosts)}) need {LIBRARY} at the same path. There messages wait by --wait if the "
            "launcher passes LD_PRELOAD and APPLES_WAIT on (Open MPI: -x), and collectives of all ranks as MPI does"
        )
    try:
        with JobDirectory() as job:
            variables = variables_of_job(job.path, wait)
            if not is_launcher:
                variables["PATH"] = stand_ins_first(variables.get("PATH", os.defpath))
                variables.update({WAIT_VARIABLE: wait, PYTHON_VARIABLE: sys.executable})
            status = run(command, variables, job.lock)
            if is_launcher:
                report(job, wait, stands_in=stands_in)
    except OSError as error:
        fail(f"no directory for the ranks: {error}; make room in /dev/shm or set TMPDIR", 125)
    end_like(status)


def report(job: JobDirectory, wait: str, *, stands_in: bool) -> None:
    """Print what the user should know of the ranks that have ended."""
    pages = list(job.pages())
    if not pages and not stands_in:
        note("no rank left a page here: not an MPI program, linked statically, or on other hosts")
    missing = max((page.ranks for page in pages), default=0) - len(pages)
    if missing > 0:
        note(
            f"{missing} of {missing + len(pages)} ranks ran without it: on other hosts, or linked statically"
        )
    costs = [page.cost_of_mpi for page in pages if page.best_way == "block" and page.cost_of_mpi > 0]
    if wait == "block" and costs and costs[0] < FASTER:
        note(
            f"MPI's own waits would be faster than block: an iteration takes {costs[0]:.2f} × as long with them"
        )


def lines_for(form: str, wait: str) -> list[str]:
    """Return lines that put the stand-ins first in PATH, for a shell or a file of variables."""
    path = os.environ.get("PATH", os.defpath)
    variables = {WAIT_VARIABLE: wait, PYTHON_VARIABLE: sys.executable}
    if form == "github":
        return [f"{name}={value}" for name, value in {**variables, "PATH": stand_ins_first(path)}.items()]
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return [*lines, f'export PATH={shlex.quote(str(LAUNCHERS))}:"$PATH"']


def check_library(library: Path) -> None:
    """End with a message unless the library can be preloaded."""
    if not sys.platform.startswith("linux"):
        fail(f"needs Linux (LD_PRELOAD, futex, /proc); this is {sys.platform}", 2)
    if any(c in " :" for c in str(library)):
        fail(
            f"{library}: a preloaded library may have no space and no colon in its path; install it elsewhere",
            2,
        )
    if not library.is_file():
        fail(f"{library} is missing; install the wheel: pip install --force-reinstall mpi-wait", 2)


def note(text: str) -> None:
    """Print a line of this command's on standard error."""
    with contextlib.suppress(OSError):
        print(f"mpi-wait: {text}", file=sys.stderr, flush=True)


def fail(text: str, code: int) -> NoReturn:
    """End with a message."""
    note(text)
    sys.exit(code)
