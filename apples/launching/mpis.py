"""The MPI of a program: its family, found from the libraries that the program loads, and the `mpiexec` of that family.

A program that was built with one MPI and is started by the `mpiexec` of another runs as many single ranks. Therefore
the family is found before the start, without running the program:

* A binary loads the library of its MPI (`ldd`).
* A Python program, or an interpreter, loads the extension module of its mpi4py, which the interpreter finds. If mpi4py
  takes any MPI, the `mpiexec` beside an interpreter of a virtual environment counts.
* All others, such as shell scripts, are started by the `mpiexec` of this package's environment, unless the user names
  another one, or a short run has shown another library (`apples.launching.seenmpi`).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from apples.errors import LaunchError, NotExecutable, ProgramNotFound
from nws.base.program import ProgramFailed, output_of


class Family(StrEnum):
    """Implementations of MPI with an `mpiexec` and ranks that understand each other."""

    MPICH = "mpich"
    OPEN_MPI = "openmpi"
    INTEL = "intelmpi"


_TITLES = {Family.MPICH: "MPICH", Family.OPEN_MPI: "Open MPI", Family.INTEL: "Intel MPI"}
_PACKAGES = {Family.MPICH: "mpich", Family.OPEN_MPI: "openmpi-bin", Family.INTEL: "intel-oneapi-mpi"}

#: Names of `mpiexec`, the most definite first.
_COMMANDS = {
    Family.MPICH: ("mpiexec.mpich", "mpiexec.hydra", "mpiexec", "mpirun"),
    Family.OPEN_MPI: ("mpiexec.openmpi", "mpirun.openmpi", "mpiexec", "mpirun"),
    Family.INTEL: ("mpiexec.hydra", "mpiexec", "mpirun"),
}

#: Programs that the command starts on other hosts, the newest first.
_DAEMONS = {
    Family.MPICH: ("hydra_pmi_proxy",),
    Family.OPEN_MPI: ("prted", "orted"),
    Family.INTEL: ("hydra_bstrap_proxy",),
}

#: Directories above a library that may be the prefix of its installation: /usr/lib/x86_64-linux-gnu/openmpi/lib.
_PREFIXES = 5

#: Seconds for `ldd`, and for `mpiexec --version`.
_LOOK_S = 20.0

#: Prints the directory of mpi4py without importing it; the working directory is not searched.
_FIND_MPI4PY = """
import sys; sys.path.pop(0)
from importlib.util import find_spec
print(find_spec("mpi4py").submodule_search_locations[0])
"""

#: A library of MPI in the output of `ldd`. Intel MPI and MPICH have the same names.
_LIBRARY = re.compile(r"^\s*(lib(?:mpich|mpi|pmpi|mpi_abi)\.so[.\d]*) => (not found|\S+)", re.MULTILINE)
_OF_OPEN_MPI = re.compile(r"lib(?:open-pal|open-rte)\.so|libmpi\.so\.(?:20|40|80)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """An installation of MPI. mpiexec : path of its command"""

    family: Family
    mpiexec: str

    @property
    def of_prrte(self) -> bool:
        """Whether it is Open MPI 5 or later, whose ranks are started by PRRTE."""
        real = Path(self.mpiexec).resolve()
        return self.family is Family.OPEN_MPI and (real.parent / "prterun").exists()

    @property
    def daemon(self) -> str | None:
        """The program that starts ranks on another host, by its path there; None if it is not where it is expected."""
        beside = Path(self.mpiexec).resolve().parent
        names = _DAEMONS[self.family]
        return next((str(beside / name) for name in names if (beside / name).exists()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The MPI library that a program loads. path : None if it is not installed where the program looks for it"""

    family: Family
    name: str
    path: str | None


def mpi_of(
    program: str,
    which: str | None,
    find_own: Callable[[], str],
    search_path: str,
    seen: Family | None = None,
) -> Mpi:
    """Return the MPI that starts a program; raises `LaunchError`, `NotExecutable` or `ProgramNotFound`.

    Args:
        program: resolved path
        which: the user's choice: a family, or the path of an `mpiexec`; None to find it
        own: returns the `mpiexec` of this package's environment
        search_path: PATH in which others are looked up
        seen: family of the library that the program was seen to use
    """
    linked = linked_mpi(program, os.environ.get("LD_LIBRARY_PATH", ""))
    if which is None:
        # The library that a run has shown goes before the file: a script may load another environment first.
        if seen is not None and (linked is None or linked.family is not seen):
            return _installed(seen, None, program, find_own, search_path)
        return (
            _beside(program, find_own)
            if linked is None
            else _installed(linked.family, linked, program, find_own, search_path)
        )
    if which in tuple(Family):
        chosen = Family(which)
        _check_match(program, linked, chosen, f"--mpi {which}")
        return _installed(chosen, linked, program, find_own, search_path)
    if os.sep not in which:
        raise LaunchError(f"--mpi {which}: legal are {', '.join(Family)}, or the path of an mpiexec")
    mpi = _at(which)
    _check_match(program, linked, mpi.family, f"{which} is of {_TITLES[mpi.family]}")
    return mpi


def in_environment(program: str) -> bool:
    """Return whether a program is of this package's Python environment, and so needs it on every host."""
    return os.path.dirname(program) == os.path.dirname(sys.executable)


@cache
def linked_mpi(program: str, library_path: str) -> Linked | None:
    """Return the MPI library that a program loads; None if it loads none, or its kind is not known.

    Args:
        library_path: value of LD_LIBRARY_PATH; part of the key of the cache
    """
    interpreter = _interpreter(program)
    if interpreter is not None:
        modules = _mpi4py_modules(interpreter)
        # Some mpi4py have one module for each MPI and take the one that is there: then the file tells nothing.
        return _ldd(modules[0]) if len(modules) == 1 else None
    return _ldd(program)


def family_of(mpiexec: str) -> Family | None:
    """Return the family of an `mpiexec` from its file name and its neighbours; None if they do not show it."""
    # Debian's `mpiexec` is a link to a link (alternatives); only the target has its neighbours.
    real = Path(mpiexec).resolve()
    name, beside = real.name, real.parent
    if name in ("orterun", "prterun") or (name.startswith("mpi") and (beside / "ompirun_wrapper").exists()):
        return Family.OPEN_MPI
    if name in ("mpiexec", "mpirun", "mpiexec.hydra") and (beside / "hydra_pmi_proxy").exists():
        # Intel MPI is a fork of hydra with the same names, but for this program.
        return Family.INTEL if (beside / "hydra_bstrap_proxy").exists() else Family.MPICH
    return None


def _ldd(program: str) -> Linked | None:
    try:
        result = subprocess.run(
            ["ldd", program], capture_output=True, text=True, timeout=_LOOK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _LIBRARY.search(result.stdout)
    if match is None:
        return None
    path = None if match[2] == "not found" else match[2]
    # A library that is missing leaves the directories of the program.
    prefixes = _prefixes(path or program)
    # By the libraries below it: `libmpi.so` alone may be Open MPI's or Intel's.
    if _OF_OPEN_MPI.search(result.stdout):
        family = Family.OPEN_MPI
    elif any((prefix / "bin" / "hydra_bstrap_proxy").exists() for prefix in prefixes):
        family = Family.INTEL
    else:
        family = Family.MPICH
    return Linked(family=family, name=match[1], path=path)


def _interpreter(program: str) -> str | None:
    """Return the Python that a program is, or that its first line names; None for other programs."""
    with open(program, "rb") as file:
        # The kernel reads no more of a first line either.
        first = file.readline(256).decode(errors="replace")
    if first.startswith("#!"):
        # env may have options and variables before the interpreter
        words = [word for word in first[2:].split() if word[0] != "-" and "=" not in word] or [""]
        name = words[1] if os.path.basename(words[0]) == "env" and len(words) > 1 else words[0]
        program = shutil.which(name) or name
    return program if os.path.basename(program).startswith("python") else None


def _mpi4py_modules(interpreter: str) -> list[str]:
    """Return the extension modules of the mpi4py that an interpreter imports, as it says itself."""
    try:
        directory = output_of([interpreter, "-c", _FIND_MPI4PY], limit_s=_LOOK_S).rstrip("\n")
    except ProgramFailed:
        return []
    return [str(path) for path in sorted(Path(directory).glob("MPI.*.so"))]


def _beside(program: str, find_own: Callable[[], str]) -> Mpi:
    """Return the MPI beside the interpreter of a virtual environment, else this environment's."""
    interpreter = _interpreter(program)
    if interpreter is not None and (Path(interpreter).parent.parent / "pyvenv.cfg").exists():
        path = Path(interpreter).with_name("mpiexec")
        family = family_of(str(path)) if path.exists() else None
        if family is not None:
            return Mpi(family=family, mpiexec=str(path))
    return Mpi(family=Family.MPICH, mpiexec=find_own())


def _installed(
    family: Family, linked: Linked | None, program: str, find_own: Callable[[], str], search_path: str
) -> Mpi:
    """Return an installation: beside the library or the program, else on PATH, else this environment's."""
    prefixes = [] if linked is None else [str(prefix / "bin") for prefix in _prefixes(linked.path or program)]
    # Beside the library first: PATH may have another version of the same family.
    for directory in (*prefixes, *search_path.split(os.pathsep)):
        for name in _COMMANDS[family]:
            path = os.path.join(directory, name)
            # `mpiexec` on PATH may be any family's, so the name alone is not enough.
            if os.access(path, os.X_OK) and family_of(path) is family:
                return Mpi(family=family, mpiexec=os.path.abspath(path))
    if family is Family.MPICH:
        return Mpi(family=family, mpiexec=find_own())
    built = "" if linked is None else f"the program loads {linked.name} of {_TITLES[family]}; "
    raise ProgramNotFound(
        f"{built}the mpiexec of {_TITLES[family]} is neither beside its library nor on PATH; install it (Debian: "
        f"{_PACKAGES[family]}), or give its path with --mpi"
    )


def _prefixes(file: str) -> list[Path]:
    """Return the directories that may be the prefix of the installation of a file."""
    return list(Path(file).resolve().parents)[:_PREFIXES]


def _at(path: str) -> Mpi:
    """Return the MPI of an `mpiexec` at a path, or below a prefix."""
    # A prefix, as modules of clusters set it in MPI_HOME.
    if os.path.isdir(path):
        path = os.path.join(path, "bin", "mpiexec")
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise ProgramNotFound(
            f"--mpi {path}: no such file; give the path of an mpiexec, or one of {', '.join(Family)}"
        )
    if not os.access(path, os.X_OK):
        raise NotExecutable(f"--mpi {path} may not be executed; give the path of an mpiexec")
    family = family_of(path) or _by_version(path)
    if family is None:
        raise LaunchError(f"--mpi {path} is of no known MPI; known are {', '.join(_TITLES.values())}")
    return Mpi(family=family, mpiexec=path)


@cache
def _by_version(mpiexec: str) -> Family | None:
    try:
        result = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, timeout=_LOOK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for mark, family in (
        ("Open MPI", Family.OPEN_MPI),
        ("OpenRTE", Family.OPEN_MPI),
        ("Intel(R) MPI", Family.INTEL),
    ):
        if mark in result.stdout:
            return family
    return Family.MPICH if "HYDRA" in result.stdout else None


def _check_match(program: str, linked: Linked | None, chosen: Family, what: str) -> None:
    if linked is not None and linked.family is not chosen:
        raise LaunchError(
            f"{what}, but {program} loads {linked.name} of {_TITLES[linked.family]}: its ranks would not find each "
            f"other; use --mpi {linked.family}, or build it with {_TITLES[chosen]}"
        )
