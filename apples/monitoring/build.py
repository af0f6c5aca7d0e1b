"""Compiles the monitor's library from its C sources, once for each compiler.

No MPI is needed to build it: the same file works with MPICH and Open MPI. It is compiled on the host that uses it
(`$CC`, else cc, gcc or clang) and stored in the state directory under the hash of sources, compiler and flags. It is
written to a temporary name and renamed, so that many starts at once are safe. Without a compiler a stored file is used.
"""

import hashlib
import os
import platform
import shlex
import shutil
import sys
from pathlib import Path

from apples.errors import MonitorError
from nws.base.files import Replacement, make_private
from nws.base.paths import refuse_shared
from nws.base.program import ProgramFailed, output_of
from nws.client import state_dir

SOURCES = Path(__file__).with_name("shim")
COMPILERS = ("cc", "gcc", "clang")

#: Seconds a compiler may take.
_COMPILE_S = 120.0


def compiler() -> list[str]:
    """Return the command of the C compiler, `$CC` first; raises `MonitorError` if there is none."""
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        command = shlex.split(chosen)
        if path := shutil.which(command[0]):
            return [path, *command[1:]]
        raise MonitorError(
            f"CC is {chosen!r}, and no such program is in PATH; legal is the command of a C compiler, "
            f"or nothing to look for {', '.join(COMPILERS)}"
        )
    for name in COMPILERS:
        if path := shutil.which(name):
            return [path]
    raise MonitorError(
        f"the monitor of MPI programs is compiled where it is used, and no C compiler ({', '.join(COMPILERS)}) is in "
        "PATH; install one (Debian: apt install gcc libc6-dev), or name it in CC, or run without the monitor"
    )


def monitor_library() -> Path:
    """Return the library to preload, built now if necessary; raises `MonitorError` with the missing part.

    Raises `StoreError` if other users may write to the library or to a directory it is kept in.
    """
    if sys.platform != "linux":
        raise MonitorError(
            f"the monitor of MPI programs needs Linux (LD_PRELOAD, futex, /proc); this is {sys.platform}"
        )
    directory = refuse_shared(state_dir() / "monitor")
    if any(c in " :" for c in str(directory)):
        raise MonitorError(
            f"{directory}: a library to be preloaded may have no space and no colon in its path; "
            "set APPLES_STATE to another directory"
        )
    made_of = _sources_digest()
    try:
        command = compiler()
    except MonitorError:
        # A host without one may share its state with hosts that have one.
        built = sorted(directory.glob(f"{made_of}-*.so"))
        if not built or os.environ.get("CC"):
            raise
        return refuse_shared(built[0])
    path = directory / f"{made_of}-{_compiler_digest(command)}.so"
    if not path.is_file():
        _build(command, path)
    return refuse_shared(path)


def _sources_digest() -> str:
    """Return a digest of the sources, the file of flags among them, and kind of processor."""
    digest = hashlib.sha256(platform.machine().encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compiler_digest(command: list[str]) -> str:
    """Return a digest of the compiler's version text."""
    try:
        about = output_of([*command, "--version"], limit_s=_COMPILE_S)
    except ProgramFailed:
        about = ""
    return hashlib.sha256((repr(command) + about).encode()).hexdigest()[:8]


def _build(command: list[str], path: Path) -> None:
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    # The build of `mpi_wait` reads the same file.
    flags = (SOURCES / "flags.txt").read_text(encoding="ascii").split()
    try:
        make_private(path.parent)
        with Replacement(path) as temporary:
            output_of([*command, *flags, "-o", temporary, *sources, "-ldl", "-lm"], limit_s=_COMPILE_S)
            # with a umask of 0 the linker lets everybody write
            Path(temporary).chmod(0o755)
    except ProgramFailed as failed:
        raise MonitorError(
            f"{shlex.join(command)} could not compile the monitor ({SOURCES}), {failed.reason}: "
            f"{_first_lines(failed.stderr)}; it needs a C11 compiler and the headers of the C library "
            "(Debian: apt install gcc libc6-dev), or name another compiler in CC"
        ) from None
    except OSError as error:
        raise MonitorError(
            f"{path}: the monitor's library could not be written: {error.strerror}; "
            "make room or set APPLES_STATE to another directory"
        ) from error


def _first_lines(text: str, count: int = 3) -> str:
    lines = [line.strip() for line in text.splitlines() if "error" in line.lower()] or text.splitlines()
    return " / ".join(lines[:count]) or "it said nothing"
