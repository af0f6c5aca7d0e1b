"""Compile the library of the wheel from the C sources of `apples.monitoring`, whose only copy is there.

By default Zig's C compiler, a package of the index, builds it for glibc 2.17, also for another kind of processor than
this one. Variables:

    MPI_WAIT_MACHINE    x86_64 or aarch64, by default that of this machine
    MPI_WAIT_CC         another compiler; the wheel is then tagged for machines like this one only
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The oldest glibc that the library runs on, and the older name of this tag, which old versions of pip know.
GLIBC, OLDER_TAG = (2, 17), "manylinux2014"
ZIG = "ziglang>=0.13,<1"
LAUNCHERS = (
    *("mpiexec", "mpirun", "mpiexec.hydra", "orterun", "prterun"),
    *("mpiexec.mpich", "mpirun.mpich", "mpiexec.openmpi", "mpirun.openmpi"),
)


class LibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library and the stand-ins for launchers to the wheel."""

    def dependencies(self) -> list[str]:
        """Return the packages that the build needs."""
        return [] if os.environ.get("MPI_WAIT_CC") else [ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library and name it, the launchers and the tag of the wheel in `build_data`."""
        machine = os.environ.get("MPI_WAIT_MACHINE") or platform.machine()
        self._directory = tempfile.TemporaryDirectory(prefix="mpi-wait-build-")
        made = Path(self._directory.name)
        library = made / "libmpi-wait.so"
        command, tag = _compiler(machine)
        sources = _sources(Path(self.root))
        flags = (sources / "flags.txt").read_text(encoding="ascii").split()
        files = [str(path) for path in sorted(sources.glob("*.c"))]
        output = ['-DMONITOR_NAME="mpi-wait"', "-s", "-o", str(library)]
        subprocess.run([*command, *flags, *output, *files, "-ldl", "-lm"], check=True)
        (made / "launchers").mkdir()
        for launcher in LAUNCHERS:
            shutil.copy(Path(self.root) / "launcher.sh", made / "launchers" / launcher)
        for name in ("libmpi-wait.so", "launchers"):
            build_data["force_include"][str(made / name)] = f"mpi_wait/{name}"
        build_data["tag"] = f"py3-none-{tag}"
        build_data["pure_python"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory."""
        self._directory.cleanup()


def _sources(root: Path) -> Path:
    """Return the directory of the C sources: beside this file in a source distribution, else in the repository."""
    beside = root / "shim"
    return beside if beside.is_dir() else root.parent / "apples" / "monitoring" / "shim"


def _compiler(machine: str) -> tuple[list[str], str]:
    """Return the command of the compiler and the platform tag of its libraries."""
    if chosen := os.environ.get("MPI_WAIT_CC"):
        return shlex.split(chosen), f"linux_{machine}"
    major, minor = GLIBC
    target = f"{machine}-linux-gnu.{major}.{minor}"
    # Zig adds checks of undefined behaviour that need a run-time library.
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-fno-sanitize=undefined"]
    return command, f"manylinux_{major}_{minor}_{machine}.{OLDER_TAG}_{machine}"
