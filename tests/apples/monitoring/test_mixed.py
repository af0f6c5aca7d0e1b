"""Ranks with and without the monitor in one job, in the ways of waiting in which collectives have to match."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from apples.coscheduling.events import Wait
from tests.apples.monitoring.conftest import LIBRARIES, PROGRAMS

#: Sums of ranks: over three in the world, over the halves (rank 0 alone in one), over both halves merged.
SUM = 3 + 0 + 3


def secured(program):
    """A copy with another group, for which the loader preloads nothing."""
    copy = Path(f"{program}-secured")
    shutil.copy(program, copy)
    os.chown(copy, -1, 65534)
    copy.chmod(0o2755)
    return [str(copy)]


def linked_statically(mpi, program):
    """The program with its MPI in itself, whose calls no library in between sees."""
    archive = LIBRARIES / "libmpich.a"
    if mpi.name != "mpich" or not archive.exists():
        pytest.skip("only Debian's MPICH has a static library")
    needed = subprocess.run(["ldd", LIBRARIES / "libmpich.so.12"], capture_output=True, text=True, check=True)
    libraries = [line.split()[2] for line in needed.stdout.splitlines() if "=> /" in line]
    words = [PROGRAMS / "mixed.c", "-w", "-o", f"{program}-static", archive, *libraries]
    subprocess.run(["gcc", "-I/usr/include/x86_64-linux-gnu/mpich", *words], check=True)
    return [f"{program}-static"]


def without(how, mpi, program):
    """The command of a rank that has no monitor."""
    if how == "secured" and (os.geteuid() != 0 or mpi.name == "openmpi"):
        pytest.skip("only root can give a program another group, and Open MPI's PMIx refuses it")
    match how:
        case "secured":
            return secured(program)
        case "static":
            return linked_statically(mpi, program)
        case "cleared":
            return ["env", "-u", "APPLES_WAIT", "-u", "APPLES_MONITOR", program]
    return ["env", "-u", "LD_PRELOAD", program]


@pytest.mark.covering("mpi", "how", "first")
@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("how", ["unset", "cleared", "static", "secured"])
def test_ranks_without_the_monitor_end_with_the_others(mpi, compiled, start, how, first):
    (program,) = compiled(mpi, "mixed.c")
    lacking = without(how, mpi, program)
    words = [*lacking, ":", "-n", 2, program] if first else [program, ":", "-n", 1, *lacking]
    started = start(mpi, 1 if first else 2, words, Wait.ADAPTIVE if first else Wait.SPIN_BLOCK)
    assert started.end() == (f"{SUM}\n", "")
    assert len(started.job.figures()) == 2


@pytest.mark.parametrize("environment", ["env", "env -u LD_PRELOAD"], ids=["with", "without"])
def test_spawned_ranks_meet_those_that_wait_by_themselves(mpi, compiled, start, environment):
    if mpi.name == "mpich":
        pytest.skip("MPI_Comm_spawn of Debian's MPICH 4.0.2 fails")
    started = start(mpi, 3, [*compiled(mpi, "mixed.c"), environment], Wait.SPIN_BLOCK)
    assert started.end() == (f"{SUM + 10}\n", "")


def test_list_of_a_killed_job_does_not_count(mpi, compiled, start, pages_directory):
    """Two ranks sleep in a barrier, for about 90 times a millisecond."""
    ranks = pages_directory / ".job.world"
    for _ in range(2):
        started = start(mpi, 3, compiled(mpi, "mixed.c"), Wait.SPIN_BLOCK)
        assert started.end() == (f"{SUM}\n", "")
        assert sum(figures.sleeps for figures in started.job.figures()) > 40
        # as if they had been killed in MPI_Init
        entries = ranks.read_bytes()
        ranks.write_bytes(b"".join(entries[at : at + 12] + bytes(4) for at in range(0, len(entries), 16)))
