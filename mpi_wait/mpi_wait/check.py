"""Test the MPI libraries of this machine: two ranks of each launcher in PATH, without and with the library.

Without a launcher the MPI libraries are only looked for and named.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mpi_wait import probe
from mpi_wait.jobdirectory import JobDirectory
from mpi_wait.preload import LAUNCHERS, variables_of_job, without_stand_ins

LIMIT_S = 60
#: Names of an MPI library by the family of its launcher. MPICH's is Intel's and Cray's, too.
NAMES = {
    "Open MPI": ("libmpi.so.40", "libmpi.so.80", "libmpi.so"),
    "MPICH": ("libmpi.so.12", "libmpich.so.12"),
}
#: Above this share of a CPU a rank that should sleep polls.
POLLS = 0.5
#: Two ranks on any machine, also for root.
OPEN_MPI_VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class Ranks(NamedTuple):
    """Two ranks that have ended: how many knew of each other, the share of a CPU of the waiting one, their MPI."""

    ranks: int
    share: float
    version: str


def check() -> int:
    """Print a line for each MPI library; return 0 if the library works with all that could be tested, else 1."""
    results = []
    for launcher, library in _launchers():
        works, text = _tested(launcher, library)
        print(text, flush=True)
        results.append(works)
    if results:
        return 0 if all(results) else 1
    libraries = list(_installed())
    for path in libraries:
        family = "Open MPI" if b"ompi_mpi_comm_world" in path.read_bytes() else "MPICH or Intel MPI"
        print(f"{path} ({family}): supported, not tested")
    missing = "mpiexec or mpirun" if libraries else "MPI library, mpiexec or mpirun"
    print(
        f"no {missing} in the usual places; load the module of your MPI or set PATH, then run --check again"
    )
    return 1


def _tested(launcher: str, library: Path | None) -> tuple[bool, str]:
    """Return whether this package works with a launcher's MPI library, and a line on it."""
    if library is None:
        return (
            False,
            f"{launcher}: not tested, its libmpi is not near it; add its directory to LD_LIBRARY_PATH",
        )
    before = _run(launcher, library, os.environ)
    if isinstance(before, str):
        return False, f"{launcher}: not tested, two ranks fail without mpi-wait, too: {before}"
    if before.ranks != 2:
        return (
            False,
            f"{launcher}: not tested, it starts single ranks of {library}; put the launcher of that MPI first",
        )
    with JobDirectory() as job:
        after = _run(launcher, library, variables_of_job(job.path, "block"))
    if isinstance(after, str):
        return False, f"{before.version} ({launcher}): does not work, two ranks fail: {after}"
    works = after.share < POLLS
    verdict = "works" if works else "has no effect; is the launcher a script that clears LD_PRELOAD?"
    cpu = f"a waiting rank takes {after.share:.0%} of a CPU, {before.share:.0%} without mpi-wait"
    return works, f"{before.version} ({launcher}): {verdict}; {cpu}"


def _run(launcher: str, library: Path, environment: Mapping[str, str]) -> Ranks | str:
    """Run the two ranks; return their values, or the reason why they failed."""
    command = [launcher, "-n", "2", sys.executable, str(Path(probe.__file__)), str(library)]
    paths = [str(library.parent), *environment.get("LD_LIBRARY_PATH", "").split(":")]
    variables = {**OPEN_MPI_VARIABLES, **environment, "LD_LIBRARY_PATH": ":".join(filter(None, paths))}
    done = _output(command, variables)
    for line in done.stdout.splitlines():
        words = line.split(maxsplit=2)
        if done.returncode == 0 and len(words) == 3:
            return Ranks(int(words[0]), float(words[1]), words[2])
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip(" -")]
    return f"exit code {done.returncode}: {' / '.join(lines[:2]) or 'no output'}"


def _output(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command; one that takes too long has the exit code of `timeout`."""
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not ended after {LIMIT_S} s")


def _launchers() -> Iterator[tuple[str, Path | None]]:
    """Yield the launchers in PATH, one for each MPI library, with that library."""
    path = os.pathsep.join(without_stand_ins(os.environ.get("PATH", os.defpath)))
    seen = set()
    for name in sorted((stand_in.name for stand_in in LAUNCHERS.glob("mpi*")), key=len):
        launcher = shutil.which(name, path=path)
        library = launcher and _library(launcher)
        if launcher and (library or launcher) not in seen:
            seen.add(library or launcher)
            yield launcher, library or None


def _library(launcher: str) -> Path | None:
    """Return the MPI library that belongs to a launcher: the nearest one of its family."""
    version = _output([launcher, "--version"], {**OPEN_MPI_VARIABLES, **os.environ}).stdout
    names = NAMES["Open MPI" if any(word in version for word in ("Open MPI", "OpenRTE")) else "MPICH"]
    roots = [Path(launcher).parent.parent, Path(os.path.realpath(launcher)).parent.parent]
    paths = (directory / name for directory in _directories(*roots) for name in names)
    return next((path.resolve() for path in paths if path.is_file()), None)


def _installed() -> Iterator[Path]:
    """Yield the MPI libraries in the usual directories."""
    names = {name for family in NAMES.values() for name in family}
    paths = {(directory / name).resolve() for directory in _directories(Path("/usr")) for name in names}
    yield from sorted(path for path in paths if path.is_file())


def _directories(*roots: Path) -> Iterator[Path]:
    for root in roots:
        yield from (
            root / "lib",
            root / "lib64",
            root / "lib" / f"{platform.machine()}-linux-gnu",
            root / "lib/release",
        )
    yield from (Path(path) for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path)
