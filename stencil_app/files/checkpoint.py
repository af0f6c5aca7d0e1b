r"""Checkpoints: the whole mesh in one file that is independent of slabs, so that any layout can resume from it.

::

    offset 0      magic b"STENCIL\n", uint32 version, uint32 length of the header, uint32 its CRC-32
    offset 20     header, JSON: application, parameters, iteration, residual, mesh [rows, shape of a row], time
    offset 4096   the cells, float64 little-endian, rows in global order
    after them    uint64 for each row: its digest (`stencil_app.mesh.measures`)

Each rank writes and verifies its own rows. A restart continues bit for bit like an unbroken run: ghost cells follow
from the cells. Wrong application or parameters, and foreign, truncated or altered files have a message each, with the
remedy.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stencil_app.errors import CheckpointError
from stencil_app.files.whole import SharedFile
from stencil_app.mesh.layout import Array
from stencil_app.mesh.measures import row_digests
from stencil_app.options import Value

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

MAGIC = b"STENCIL\n"
VERSION = 1
_PREFIX = struct.Struct("<8sIII")
_DATA_OFFSET = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a checkpoint.

    iteration : iterations done.  residual_bits : pattern of the residual taken last, -1 for none yet
    mesh : rows, and the shape of one.  time, rate_bits : the problem's own time, and the bound of its next step
    floored : values raised to a floor so far
    """

    application: str
    parameters: Mapping[str, Value]
    iteration: int
    residual_bits: int
    mesh: tuple[int, ...]
    time: float = 0.0
    rate_bits: int = 0
    floored: int = 0

    @property
    def file_bytes(self) -> int:
        """Return length of the whole file."""
        return self.digest_offset(self.mesh[0])

    @property
    def row_bytes(self) -> int:
        """Return length of one row's values."""
        return 8 * math.prod(self.mesh[1:])

    def row_offset(self, row: int) -> int:
        """Return the offset of the cells of a global row."""
        return _DATA_OFFSET + row * self.row_bytes

    def digest_offset(self, row: int) -> int:
        """Return the offset of the digest of a global row."""
        return self.row_offset(self.mesh[0]) + 8 * row


def write(comm: Intracomm, path: Path, header: Header, *, interior: Iterable[Array], first_row: int) -> None:
    """Write the mesh, each rank its own rows; collective. Raises `OutputError` on all ranks.

    interior : the rows of this rank, float64 of one shape each, global rows `first_row`...
    """
    with SharedFile(comm, path) as file:
        if comm.rank == 0:
            text = json.dumps(asdict(header)).encode()
            file.write(0, _PREFIX.pack(MAGIC, VERSION, len(text), zlib.crc32(text)) + text)
        for row, plane in enumerate(interior, first_row):
            values = np.ascontiguousarray(plane, dtype="<f8")
            file.write(header.row_offset(row), values.data)
            file.write(header.digest_offset(row), row_digests(values[None], row).data)


def read_header(path: Path) -> Header:
    """Return header of a checkpoint whose length is right; raises `CheckpointError`."""
    try:
        with path.open("rb") as file:
            start = file.read(_DATA_OFFSET)
        length = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"--restart {path}: cannot be read: {error.strerror}") from None
    if not start.startswith(MAGIC):
        raise CheckpointError(f"--restart {path}: not a checkpoint; give a file that --checkpoint wrote")
    damaged = CheckpointError(
        f"--restart {path}: its header is damaged; use an older checkpoint or start afresh without --restart"
    )
    if len(start) < _PREFIX.size:
        raise damaged
    _, version, size, crc = _PREFIX.unpack_from(start)
    if version != VERSION:
        raise CheckpointError(
            f"--restart {path}: format version {version}, this program reads {VERSION}; "
            "restart with the version that wrote it"
        )
    text = start[_PREFIX.size : _PREFIX.size + size]
    if len(text) != size or zlib.crc32(text) != crc:
        raise damaged
    fields: dict[str, Any] = json.loads(text)
    header = Header(**{**fields, "mesh": tuple(fields["mesh"])})
    if length != header.file_bytes:
        kind = "truncated" if length < header.file_bytes else "too long"
        raise CheckpointError(
            f"--restart {path}: {kind}: {length} bytes, {header.file_bytes} expected for "
            f"{' × '.join(map(str, header.mesh))} cells; use an older checkpoint or start afresh"
        )
    return header


def mismatches(path: Path, header: Header, application: str, parameters: Mapping[str, Value]) -> list[str]:
    """Return why this run cannot resume from a checkpoint, one line each; empty when it can."""
    if header.application != application:
        return [f"--restart {path}: written by {header.application}, this run is {application}"]
    names = dict.fromkeys([*header.parameters, *parameters])
    return [
        f"--restart {path}: {name} is {header.parameters.get(name)} in the file and {parameters.get(name)} "
        f"in this run; give --{name} {header.parameters.get(name)}"
        for name in names
        if header.parameters.get(name) != parameters.get(name)
    ]


class Rows(Protocol):
    """Rows to be filled: an array, or an object with the same item assignment."""

    def __len__(self) -> int: ...

    def __setitem__(self, row: int, values: Array, /) -> None: ...


def read_rows(path: Path, header: Header, interior: Rows, first_row: int) -> None:
    """Fill the rows of this rank, verified one by one; raises `CheckpointError`."""
    rows, shape = len(interior), header.mesh[1:]
    computed = np.empty(rows, dtype=np.uint64)
    digests = np.empty(rows, dtype="<u8")
    try:
        with path.open("rb") as file:
            file.seek(header.row_offset(first_row))
            for k in range(rows):
                values = np.frombuffer(file.read(header.row_bytes), dtype="<f8").reshape(shape).copy()
                computed[k : k + 1] = row_digests(values[None], first_row + k)
                interior[k] = values
            file.seek(header.digest_offset(first_row))
            digests[:] = np.frombuffer(file.read(8 * rows), dtype="<u8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"--restart {path}: cannot be read: {error}") from None
    wrong = np.flatnonzero(computed != digests)
    if wrong.size:
        raise CheckpointError(
            f"--restart {path}: the checksum of row {first_row + int(wrong[0])} does not match: the file was "
            "altered after it was written; use an older checkpoint or start afresh without --restart"
        )
