"""The MPI libraries of this machine, for the other benchmarks: launcher, compilers, and mpi4py's settings for each.

mpi4py of this environment works with all of them, as it has modules for both ABIs. Debian's MPICH has its library under
another name; a directory with a link to it solves this.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.report import output

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """One MPI.

    launcher: its mpiexec with the necessary options
    cc, fortran: compilers, None if there is none
    """

    name: str
    launcher: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    cc: str | None = None
    fortran: str | None = None

    def ranks(self, count: int, command: list[str]) -> list[str]:
        """Return the command line that starts `count` ranks."""
        return [*self.launcher, "-n", str(count), *command]


def installed_mpis() -> list[Mpi]:
    """Return every usable MPI of this machine; the first is the project's own."""
    beside = Path(sys.executable).parent
    own = beside / "mpicc"
    mpis = [
        Mpi(
            name="MPICH 5 (wheel)",
            launcher=(str(beside / "mpiexec"),),
            cc=str(own) if own.exists() and shutil.which("gcc") else None,
        )
    ]
    if launcher := shutil.which("mpiexec.mpich"):
        links = Path(tempfile.gettempdir()) / f"apples-mpich-{os.getuid()}"
        links.mkdir(exist_ok=True)
        link = links / "libmpi.so.12"
        if not link.is_symlink():
            link.symlink_to(LIBRARIES / "libmpich.so.12")
        mpis.append(
            Mpi(
                name="MPICH 4 (Debian)",
                launcher=(launcher,),
                environment={"LD_LIBRARY_PATH": str(links), "MPI4PY_MPIABI": "mpich"},
                cc=shutil.which("mpicc.mpich"),
                fortran=shutil.which("mpifort.mpich"),
            )
        )
    if launcher := shutil.which("mpiexec.openmpi"):
        mpis.append(
            Mpi(
                name="Open MPI 4 (Debian)",
                launcher=(launcher, "--oversubscribe"),
                environment={**AS_ROOT, "MPI4PY_MPIABI": "openmpi"},
                cc=shutil.which("mpicc.openmpi"),
                fortran=shutil.which("mpifort.openmpi"),
            )
        )
    return mpis


def mpi_named(start: str) -> Mpi:
    """Return the MPI whose name begins so; end the benchmark if there is none."""
    mpis = installed_mpis()
    chosen = next((one for one in mpis if one.name.startswith(start)), None)
    if chosen is None:
        sys.exit(f"no MPI is called {start!r}; there are: {', '.join(one.name for one in mpis)}")
    return chosen


def run(command: list[str], environment: dict[str, str]) -> str:
    """Return the output of a command; if it fails, ends the benchmark with that output."""
    return output(command, seconds=300.0, **environment)
