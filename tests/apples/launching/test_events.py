"""The table of docs/launching.md on what each MPI library does, without this launcher, when a rank ends early."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from apples.launching.mpis import Family, mpi_of
from apples.launching.preflight import find_mpiexec
from tests.transcripts import text_of

PAGE = Path(__file__).parents[3] / "docs" / "launching.md"
END = "<!-- end of events -->"
#: What the second rank does, in the order of the table's columns.
EVENTS = (("exit",), ("abort", "5"), ("abort", "256"), ("signal", "9"), ("signal", "1"), ("signal", "10"))
TITLES = {Family.MPICH: "MPICH", Family.OPEN_MPI: "Open MPI", Family.INTEL: "Intel MPI"}


def lines_of(text):
    """The order of magnitude of the number of lines that are not of the program."""
    count = len([line for line in text.splitlines() if line and line != "done"])
    return next(
        (word for least, word in ((100, "100 and more"), (10, "10 to 99"), (1, "1 to 9")) if count >= least),
        "–",
    )


def merged(cell, documented):
    """The documented cell, with what is new in another one after `or`: some libraries do one thing or another."""
    parts = zip(cell.split(", "), documented.split(", "), strict=True)
    return ", ".join(old if new in old.split(" or ") else f"{old} or {new}" for new, old in parts)


def cell(mpi, event, program):
    """The cell of an event: exit code of `mpiexec`, ranks that ended, lines on standard output and error."""
    more = ("--oversubscribe",) if mpi.family is Family.OPEN_MPI and not mpi.of_prrte else ()
    more = ("--map-by", ":oversubscribe") if mpi.of_prrte else more
    roots = (f"{name}_ALLOW_RUN_AS_ROOT{end}" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM"))
    done = subprocess.run(
        [mpi.mpiexec, *more, "-n", "3", program, *event],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **dict.fromkeys(roots, "1")},
    )
    ended = 3 - done.stdout.count("done\n")
    code = done.returncode if done.returncode >= 0 else f"signal {-done.returncode}"
    ranks = "all" if ended == 3 else ended or "none"
    return f"{code}, {ranks}, {lines_of(done.stdout)}, {lines_of(done.stderr)}"


@pytest.mark.mpi
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["own", "mpich", "openmpi", "openmpi5", "intelmpi"])
def test_events_of_each_mpi_are_as_documented(mpi_programs, request, name):
    program = mpi_programs(name, text_of("apples/launching/events.c"), "events")
    mpi = mpi_of(program, None, find_mpiexec, os.environ["PATH"])
    shown = subprocess.run([mpi.mpiexec, "--version"], capture_output=True, text=True, check=True).stdout
    title = f"{TITLES[mpi.family]} {re.search(r'[0-9]+[.][0-9]+([.][0-9]+)?', shown)[0]}"
    cells = [cell(mpi, event, program) for event in EVENTS]
    page = PAGE.read_text(encoding="utf-8")
    documented = next((line for line in page.splitlines() if line.startswith(f"| {title} |")), None)
    if not documented and not request.config.getoption("--update-golden"):
        pytest.skip(f"{title} is not in the table of {PAGE.name}")
    if documented:
        cells = list(map(merged, cells, documented.strip("| ").split(" | ")[1:]))
    row = f"| {title} | {' | '.join(cells)} |"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(
            page.replace(documented or END, row if documented else f"{row}\n{END}"), encoding="utf-8"
        )
    else:
        assert row == documented
