"""One hour of one series as a compressed blob, exact to the last bit. Pure.

Layout: a byte with the version, then zlib of the times and the values as little-endian float64, each with all
first bytes first, then all second bytes, and so on: neighbours share exponents and leading digits, which compress.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Sequence

_VERSION = b"\x01"


def pack(times: Sequence[float], values: Sequence[float]) -> bytes:
    """Blob of n samples, in the order given."""
    return _VERSION + zlib.compress(_shuffle(times) + _shuffle(values), 6)


def unpack(blob: bytes) -> tuple[array[float], array[float]]:
    """Times and values, float64[n] each; raises `ValueError` when the blob is none of `pack`'s."""
    if blob[:1] != _VERSION:
        raise ValueError(f"chunk of version {blob[:1]!r}, expected {_VERSION!r}")
    try:
        plain = zlib.decompress(blob[1:])
    except zlib.error as error:
        raise ValueError(f"chunk that does not decompress: {error}") from error
    if len(plain) % 16:
        raise ValueError(f"chunk of {len(plain)} bytes, expected a multiple of 16")
    half = len(plain) // 2
    return _unshuffle(plain[:half]), _unshuffle(plain[half:])


def _shuffle(numbers: Sequence[float]) -> bytes:
    raw = _little(array("d", numbers)).tobytes()
    return b"".join(raw[i::8] for i in range(8))


def _unshuffle(planes: bytes) -> array[float]:
    count = len(planes) // 8
    raw = bytearray(len(planes))
    for i in range(8):
        raw[i::8] = planes[i * count : (i + 1) * count]
    return _little(array("d", bytes(raw)))


def _little(numbers: array[float]) -> array[float]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
