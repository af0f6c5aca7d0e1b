"""The states of all batteries in one file beside the store, so that a restart replays only the samples after it.

The file is one line of JSON, then the records of all series as in memory. The header names the store, the positions
in the store's log up to which samples are included, and the record layout. Samples may arrive while it is written, so
each block of series has a position of its own. The content can be recomputed from the store. The file is written under
another name, synchronised to disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from nws.base.errors import StoreDamaged, StoreError
from nws.base.files import Replacement
from nws.base.oserrors import REASON, os_errors_as
from nws.forecasting.batteries import BatteryBank
from nws.forecasting.statelayout import LAYOUT, STATE
from nws.messages.fieldtypes import whole

_FORMAT = "nws-batteries 3"
#: Room for the header, without and for each block's position.
_HEADER_BYTES, _CURSOR_BYTES = 4096, 24
_MOST_HEADER_BYTES = 1 << 20
#: Series that are copied and written together.
BLOCK = 1024

_Count = Annotated[int, whole(2**63 - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The samples included in the batteries.

    identity : of the store.  names : digest of its series' names
    cursor : position in its log when saving began; later series have no samples before it
    cursors : position for each block of `BLOCK` series
    """

    identity: str
    names: str
    cursor: _Count
    cursors: tuple[_Count, ...] = ()

    def included(self, series: int) -> NDArray[np.int64]:
        """Return the position for each of so many series: int64[series]."""
        return np.repeat(np.array(self.cursors, np.int64), BLOCK)[:series]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header(Seen):
    """The first line of the file. series : number of records.  check : CRC of the records and of the other fields."""

    format: str = _FORMAT
    layout: str = LAYOUT
    series: _Count
    check: _Count

    def sealed(self) -> _Header:
        """Return the header of which `check` is the CRC of the records, with that of everything."""
        return replace(self, check=zlib.crc32(json.dumps(asdict(self)).encode()))


def battery_file(store: Path) -> Path:
    """Return the file of the states beside a store."""
    return store.with_name(f"{store.name}.battery")


def digest(names: list[str]) -> str:
    """Return a digest that identifies a list of series."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def write(path: Path, blocks: Iterable[tuple[NDArray[np.void], int]], series: int, seen: Seen) -> None:
    """Replace the file; raises `StoreError` and leaves the old file as it was.

    Args:
        path: the file
        blocks: the records of `BLOCK` series each, and the position in the log up to which they include samples
        series: their number in all
        seen: everything else that identifies them
    """
    room = _HEADER_BYTES + _CURSOR_BYTES * (series // BLOCK + 1)
    check = 0
    cursors: list[int] = []
    with (
        os_errors_as(
            StoreError,
            f"{path}: the forecasters' state cannot be kept: {REASON}; "
            "free room or make the directory writable; a restart takes longer until then",
        ),
        Replacement(path, mode=0o600, sync=True) as temporary,
        open(temporary, "wb") as file,
    ):
        file.write(b"\n".rjust(room))
        for states, cursor in blocks:
            records = _bytes(states)
            check = zlib.crc32(records, check)
            cursors.append(cursor)
            file.write(records)
        header = _Header(**asdict(replace(seen, cursors=tuple(cursors))), series=series, check=check).sealed()
        file.seek(0)
        file.write(json.dumps(asdict(header)).encode())


def read(path: Path) -> tuple[BatteryBank, Seen] | None:
    """Return the batteries, and the samples they include; None if there is no file, or one of another release.

    Raises `StoreDamaged`.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_MOST_HEADER_BYTES)
            if b'"nws-batteries ' in line and _FORMAT.encode() not in line:
                return None
            header = msgspec.json.decode(line, type=_Header)
            size = os.fstat(file.fileno()).st_size - file.tell()
            if header.layout == LAYOUT and size != header.series * STATE.itemsize:
                raise ValueError(f"{size} bytes of states, expected {header.series * STATE.itemsize}")
            bank = BatteryBank.restored(file, header.series) if header.layout == LAYOUT else None
        if bank is None:
            return None
        check = 0
        for first in range(0, header.series, BLOCK):
            check = zlib.crc32(_bytes(bank.states(first, BLOCK)), check)
        if replace(header, check=check).sealed() != header:
            raise ValueError("its checksum is wrong")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split("\n")[:2])
        raise StoreDamaged(f"{path}: damaged: {text}") from error
    return bank, header


def _bytes(records: NDArray[np.void]) -> memoryview:
    return records.view(np.uint8).data
