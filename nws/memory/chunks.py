"""Samples of one series as a compressed blob, exact to the last bit. Pure.

A column of numbers becomes integers in the first lossless way: thousandths or millionths (times stamped by a clock of
whole milliseconds), the bits of float32, the bits of float64. Neighbours are alike, so the differences between them
less their median are stored, in as few bytes as they fit, all lowest bytes first, then all second bytes, and so on,
deflated. The order of the samples is kept. The series and hour of a blob are not part of it.
"""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nws.memory.integrity import DamagedRows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_VERSION = 2
_HEAD = struct.Struct("<BI")
#: way, bytes per difference, first integer, median of the differences
_COLUMN = struct.Struct("<BBqq")

_FLOAT64, _FLOAT32 = 0, 1
_SCALES = {2: 1e3, 3: 1e6}
#: beyond it neighbouring integers are the same float64
_EXACT = float(1 << 53)


def pack(times: Floats, values: Floats) -> bytes:
    """Return blob of n samples: times float64[n], values float64[n], in the order given."""
    whole = _integers(times, (2, 3, _FLOAT32, _FLOAT64))
    return _blob(len(times), [whole, _integers(values, (_FLOAT32, 2, 3, _FLOAT64))])


def unpack(blob: bytes) -> tuple[Floats, Floats]:
    """Return times and values, float64[n] each; raises `DamagedRows` when the blob is none of `pack`'s."""
    times, values = _columns(blob, 2)
    return times, values


def to_planes(integers: Integers) -> tuple[int, bytes]:
    """Return bytes per integer, 1, 2, 4 or 8, and the integers as that many planes of bytes, lowest first."""
    # 0, -1, 1, -2, … become 0, 1, 2, 3, …, so that small ones of either sign are short
    # the arithmetic shift repeats the sign bit, so the second part is 0 or -1 (all ones)
    small = ((integers << 1) ^ (integers >> 63)).view(np.uint64)
    largest = int(small.max()) if len(small) else 0
    width = next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))
    # planes and not whole integers: high bytes are mostly zero, and runs of equal bytes deflate well
    narrow: NDArray[Any] = small.astype(f"<u{width}")
    return width, narrow.view(np.uint8).reshape(-1, width).T.tobytes()


def from_planes(width: int, planes: bytes) -> Integers:
    """Return the integers that `to_planes` packed."""
    raw = np.frombuffer(planes, np.uint8)
    if width > 1:
        raw = raw.reshape(width, -1).T.copy().view(f"<u{width}").ravel()
    # 64-bit values need the unsigned shift, as the highest bit is part of the number here
    if width == 8:
        large = raw.astype(np.uint64)
        return (large >> np.uint64(1)).view(np.int64) ^ -(large & np.uint64(1)).view(np.int64)
    small = raw.astype(np.int64)
    return (small >> 1) ^ -(small & 1)


def _blob(n: int, columns: list[tuple[int, Integers]]) -> bytes:
    heads, bodies = [], []
    for way, integers in columns:
        # wrap-around is harmless: adding up wraps back
        steps = np.diff(integers)
        # the median, and not the mean: one gap in the series must not widen all differences
        base = int(np.partition(steps, len(steps) // 2)[len(steps) // 2]) if len(steps) else 0
        width, planes = to_planes(steps - np.int64(base))
        heads.append(_COLUMN.pack(way, width, int(integers[0]) if n else 0, base))
        bodies.append(planes)
    # level 6 is zlib's own compromise between time and size
    return _HEAD.pack(_VERSION, n) + b"".join(heads) + zlib.compress(b"".join(bodies), 6)


def _columns(blob: bytes, count: int) -> list[Floats]:
    if blob[:1] != bytes([_VERSION]):
        raise DamagedRows(f"chunk of version {blob[:1]!r}, expected {bytes([_VERSION])!r}")
    body = _HEAD.size + count * _COLUMN.size
    if len(blob) < body:
        raise DamagedRows(f"chunk of {len(blob)} bytes, expected at least {body}")
    # the checksum of the row was right, so what follows guards against blobs of other programs
    n = _HEAD.unpack_from(blob)[1]
    try:
        plain = zlib.decompress(blob[body:])
    except zlib.error as error:
        raise DamagedRows(f"chunk that does not decompress: {error}") from error
    columns, at = [], 0
    for column in range(count):
        way, width, first, base = _COLUMN.unpack_from(blob, _HEAD.size + column * _COLUMN.size)
        size = max(n - 1, 0) * width
        if width not in (1, 2, 4, 8) or at + size > len(plain) or way not in (_FLOAT64, _FLOAT32, *_SCALES):
            raise DamagedRows(f"chunk whose column {column} makes no sense")
        # filled in place, without copies: a read decodes a block for each hour
        integers = np.empty(n, np.int64)
        if n:
            integers[0] = first
            np.add(from_planes(width, plain[at : at + size]), base, out=integers[1:])
            integers.cumsum(out=integers)
        columns.append(_floats(way, integers))
        at += size
    if at != len(plain):
        raise DamagedRows(f"chunk with {len(plain)} bytes inside, expected {at}")
    return columns


def _integers(column: Floats, ways: tuple[int, ...]) -> tuple[int, Integers]:
    """Return the first of the ways that is exact, and the integers."""
    column = np.ascontiguousarray(column, np.float64)
    # compared as bits: NaN would differ from itself, and -0.0 would equal 0.0
    bits = column.view(np.int64)
    for way in ways[:-1]:
        integers = _attempt(way, column)
        if integers is not None and np.array_equal(_floats(way, integers).view(np.int64), bits):
            return way, integers
    return ways[-1], bits


def _attempt(way: int, column: Floats) -> Integers | None:
    if way == _FLOAT32:
        # values beyond float32 become infinite, and the comparison above rejects this way
        with np.errstate(over="ignore", under="ignore"):
            return column.astype(np.float32).view(np.int32).astype(np.int64)
    with np.errstate(over="ignore"):
        scaled = np.rint(column * _SCALES[way])
    return scaled.astype(np.int64) if bool((np.abs(scaled) < _EXACT).all()) else None


def _floats(way: int, integers: Integers) -> Floats:
    if way == _FLOAT64:
        return integers.view(np.float64)
    if way == _FLOAT32:
        return integers.astype(np.int32).view(np.float32).astype(np.float64)
    return integers.astype(np.float64) / _SCALES[way]
