"""The MPI that a program was seen to use, where a look at its file does not tell.

A script may start any binary, and `nice` any program. The monitor's pages of a short run say which library it was. The
answer is stored by program and application, and goes before the look at the file in later starts.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from apples.launching.mpis import Family
from nws.base.files import make_private, read_regular, write_whole
from nws.base.paths import state_dir

#: A longer file holds no name of a family.
_LONGEST_BYTES = 64
#: Begin of what `MPI_Get_library_version` returns.
_LIBRARIES = {
    "Open MPI": Family.OPEN_MPI,
    "MPICH": Family.MPICH,
    "Intel": Family.INTEL,
}


def library_family(version: str) -> Family | None:
    """Return the family of a library by the version that it states; None if it is of no known family."""
    return next((family for begin, family in _LIBRARIES.items() if version.startswith(begin)), None)


def seen_family(program: str, application: str) -> Family | None:
    """Return the family that an application's program was seen to use; None if it was not seen."""
    with suppress(OSError, ValueError):
        return Family(read_regular(_path(program, application), _LONGEST_BYTES).decode("ascii"))
    return None


def remember_family(program: str, application: str, family: Family) -> None:
    """Store the family that an application's program was seen to use. Nothing is stored where that is impossible."""
    path = _path(program, application)
    with suppress(OSError):
        make_private(path.parent)
        write_whole(path, family.value)


def _path(program: str, application: str) -> Path:
    # A digest, because a path may be longer than a file name can be.
    name = hashlib.sha256(f"{application}\0{program}".encode(errors="replace")).hexdigest()[:16]
    return state_dir() / "mpi" / name
