"""Rows of a damaged SQLite file, found without its b-trees.

Every leaf page of a table is read, from the file and every copy of it in the write-ahead log, older ones included: the
caller chooses among versions of a row. Where a page's list of cells is damaged, a cell is looked for at every byte. The
caller recognises rows of the store by their checksums. See https://www.sqlite.org/fileformat2.html.
"""

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

Value = int | float | str | bytes | None
Values = tuple[Value, ...]

_LEAF = 0x0D
#: Pages of indexes. Those above leaves differ from leaves by one bit, and are few: a leaf with that bit may be hidden.
_OTHERS = (0x02, 0x0A)
_FRAME_BYTES = 24
#: Bytes of the integers with serial types 0 to 6; 8 and 9 are the constants 0 and 1.
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MOST_COLUMNS = 32


class Pages:
    """The pages of a file, as its write-ahead log has them. page_bytes : as the file was created with"""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._file: BinaryIO = path.open("rb")
        self._log: BinaryIO | None = None
        # where the log has the last copy of a page, and all copies
        self._frames: dict[int, int] = {}
        self._copies: list[int] = []
        self.count = -(-os.fstat(self._file.fileno()).st_size // page_bytes)
        log = path.with_name(f"{path.name}-wal")
        if log.exists():
            self._log = log.open("rb")
            self._read_frames(os.fstat(self._log.fileno()).st_size)

    def page(self, number: int) -> bytes:
        """Return a page by its number from 1; shorter than a page at the end of a cut file."""
        at = self._frames.get(number)
        if at is not None and self._log is not None:
            return os.pread(self._log.fileno(), self._page_bytes, at)
        return os.pread(self._file.fileno(), self._page_bytes, (number - 1) * self._page_bytes)

    def versions(self) -> Iterator[bytes]:
        """Yield every page of the file, and every copy of one in the log, in their order."""
        for at in range(0, os.fstat(self._file.fileno()).st_size, self._page_bytes):
            yield os.pread(self._file.fileno(), self._page_bytes, at)
        for at in self._copies:
            assert self._log is not None
            yield os.pread(self._log.fileno(), self._page_bytes, at)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def _read_frames(self, size: int) -> None:
        assert self._log is not None
        found = []
        for at in range(32, size, _FRAME_BYTES + self._page_bytes):
            head = os.pread(self._log.fileno(), _FRAME_BYTES, at)
            if len(head) == _FRAME_BYTES:
                found.append((at + _FRAME_BYTES, *struct.unpack_from(">II8s", head)))
        # frames of an earlier use of the log have another salt
        current = found[0][-1] if found else b""
        # the last frame of a transaction has the file's length; without it, the transaction never was
        committed = max((at for at, _, pages, salt in found if pages and salt == current), default=0)
        for at, number, _, salt in found:
            if salt != current or at <= committed:
                self._copies.append(at)
            if salt == current and at <= committed and number <= self.count + len(found):
                self._frames[number] = at
        self.count = max(self.count, *self._frames, 0)


def carved(pages: Pages, page_bytes: int, take: Callable[[int, Values], bool]) -> None:
    """Pass id and values of each row to `take`, which returns whether the row is one of the store."""
    carver = _Carver(pages, page_bytes)
    for page in pages.versions():
        # SQLite's own header is before its first page
        at = 100 if page.startswith(b"SQLite format 3") else 0
        kind = page[at] if len(page) > at else 0
        cells = carver.cells(page, at) if kind == _LEAF else ()
        rows = [carver.row(page, start) for start in cells]
        taken = [row is not None and take(*row) for row in rows]
        # rows of SQLite's own tables are none of the store
        if kind in _OTHERS or (taken and all(taken)) or (at and all(rows)):
            continue
        for start in range(len(page) - 4):
            row = carver.row(page, start)
            if row is not None:
                take(*row)


class _Carver:
    def __init__(self, pages: Pages, page_bytes: int) -> None:
        self._pages, self._usable = pages, page_bytes

    @staticmethod
    def cells(page: bytes, at: int) -> tuple[int, ...]:
        """Return the starts of a leaf page's cells; none if its header is damaged."""
        if len(page) < at + 8:
            return ()
        (count,) = struct.unpack_from(">H", page, at + 3)
        return struct.unpack_from(f">{count}H", page, at + 8) if at + 8 + 2 * count <= len(page) else ()

    def row(self, page: bytes, start: int) -> tuple[int, Values] | None:
        """Return id and values of the cell at this byte, None if there is none."""
        try:
            size, at = _varint(page, start)
            key, at = _varint(page, at)
            # a quick look at the record's header
            if not 2 <= page[at] <= _MOST_COLUMNS or size < page[at] or size > 1 << 30:
                return None
            payload = self._payload(page, at, size)
            return None if payload is None else (key, _record(payload))
        except (IndexError, ValueError, struct.error):
            return None

    def _payload(self, page: bytes, at: int, size: int) -> bytes | None:
        usable = self._usable
        if size <= usable - 35:
            return page[at : at + size] if at + size <= len(page) else None
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        if local > usable - 35:
            local = least
        parts = [page[at : at + local]]
        (following,) = struct.unpack_from(">I", page, at + local)
        left = size - local
        while left > 0:
            if not 0 < following <= self._pages.count:
                return None
            more = self._pages.page(following)
            (following,) = struct.unpack_from(">I", more)
            parts.append(more[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
        return b"".join(parts)


def _record(payload: bytes) -> Values:
    head, at = _varint(payload, 0)
    types = []
    while at < head:
        kind, at = _varint(payload, at)
        types.append(kind)
    if at != head or len(types) > _MOST_COLUMNS:
        raise ValueError("header of a record")
    values: list[Value] = []
    for kind in types:
        if kind == 0:
            values.append(None)
        elif kind in _INTEGERS:
            values.append(int.from_bytes(payload[at : at + _INTEGERS[kind]], "big", signed=True))
            at += _INTEGERS[kind]
        elif kind == 7:
            values.append(struct.unpack_from(">d", payload, at)[0])
            at += 8
        elif kind in (8, 9):
            values.append(kind - 8)
        elif kind >= 12:
            size = (kind - 12) // 2
            data = payload[at : at + size]
            values.append(data if kind % 2 == 0 else data.decode())
            at += size
        else:
            raise ValueError("type of a value")
    if at != len(payload):
        raise ValueError("length of a record")
    return tuple(values)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(9):
        byte = data[at + place]
        if place == 8:
            value = value << 8 | byte
            return value - (1 << 64) if value >> 63 else value, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, at + place + 1
