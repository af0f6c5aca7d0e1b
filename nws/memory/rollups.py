"""Roll-ups: samples of one series summed up in buckets of fixed length, number, mean, lowest and highest. Pure.

A bucket is known by its number, the start in seconds since the epoch over its length, so that buckets made at different
times from different samples of the same minute add up to the bucket of all samples at once.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nws.memory.chunks import Floats, Integers, from_planes, to_planes
from nws.memory.integrity import DamagedRows

#: Lengths that are kept, in seconds, and how much time one stored blob of each covers.
SPANS_S = {60: 3600, 600: 86400}

_VERSION = 1
#: version, bytes per value (4 or 8), bytes per integer, number of buckets, start of the first one
_HEAD = struct.Struct("<BBBId")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buckets:
    """n buckets of one series, oldest first, none of them empty.

    times : float64[n], where each begins, seconds since the epoch.  count : int64[n] samples
    mean, low, high : float64[n], in the series' unit
    """

    times: Floats
    mean: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.times)


def summed_up(times: Floats, values: Floats, bucket_s: int) -> Buckets:
    """Return buckets of n samples in any order, float64[n] each."""
    starts = np.floor(times / bucket_s) * bucket_s
    return _joined(starts, values, values, values, np.ones(len(values), np.int64))


def joined(parts: list[Buckets]) -> Buckets:
    """Return all parts as one; buckets of the same time become one, weighted by their counts."""
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0)
    columns = [_columns(p) for p in parts] or [(empty, empty, empty, empty, np.empty(0, np.int64))]
    return _joined(*map(np.concatenate, zip(*columns, strict=True)))


def merged(buckets: Buckets, bucket_s: float) -> Buckets:
    """Return longer buckets, each of all those that begin within it."""
    _, *others = _columns(buckets)
    return _joined(np.floor(buckets.times / bucket_s) * bucket_s, *others)


def between(buckets: Buckets, since: float, until: float) -> Buckets:
    """Return those that begin at `since` or later, and before or at `until`."""
    a, b = np.searchsorted(buckets.times, since, "left"), np.searchsorted(buckets.times, until, "right")
    times, mean, low, high, count = (column[a:b] for column in _columns(buckets))
    return Buckets(times=times, mean=mean, low=low, high=high, count=count)


def pack_buckets(buckets: Buckets, bucket_s: int) -> bytes:
    """Return blob; exact but for the mean, which is rounded to float32 where all lowest and highest are float32."""
    # lowest and highest are measured values; the mean is none, and may be rounded
    narrow = _is_float32(buckets.low) and _is_float32(buckets.high)
    low, mean, high = (_bits(column, narrow) for column in (buckets.low, buckets.mean, buckets.high))
    start = float(buckets.times[0])
    numbers = np.rint((buckets.times - start) / bucket_s).astype(np.int64)
    # differences of neighbours and of the three values are small integers
    rows = [_steps(numbers), buckets.count, _steps(low), mean - low, high - low]
    width, planes = to_planes(np.concatenate(rows))
    head = _HEAD.pack(_VERSION, 4 if narrow else 8, width, len(buckets), start)
    return head + zlib.compress(planes, 6)


def unpack_buckets(blob: bytes, bucket_s: int) -> Buckets:
    """Return the buckets that `pack_buckets` packed; raises `DamagedRows` for any other blob."""
    if len(blob) < _HEAD.size or blob[0] != _VERSION:
        raise DamagedRows(f"roll-up of version {blob[:1]!r}, expected {bytes([_VERSION])!r}")
    _, bytes_per_value, width, n, start = _HEAD.unpack_from(blob)
    try:
        planes = zlib.decompress(blob[_HEAD.size :])
    except zlib.error as error:
        raise DamagedRows(f"roll-up that does not decompress: {error}") from error
    if width not in (1, 2, 4, 8) or len(planes) != 5 * n * width:
        raise DamagedRows(f"roll-up of {n} buckets with {len(planes)} bytes inside")
    numbers, count, low, mean, high = from_planes(width, planes).reshape(5, n)
    # the sum wraps around as the differences did
    low = np.cumsum(low)
    return Buckets(
        times=start + np.cumsum(numbers) * bucket_s,
        mean=_values(mean + low, bytes_per_value == 4),
        low=_values(low, bytes_per_value == 4),
        high=_values(high + low, bytes_per_value == 4),
        count=count.copy(),
    )


def _joined(times: Floats, mean: Floats, low: Floats, high: Floats, count: NDArray[np.int64]) -> Buckets:
    if not len(times):
        return Buckets(times=times, mean=mean, low=low, high=high, count=count)
    if not bool((times[1:] >= times[:-1]).all()):
        order = np.argsort(times, kind="stable")
        times, mean, low, high, count = times[order], mean[order], low[order], high[order], count[order]
    # the first bucket of each time
    first = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]]))
    total = np.add.reduceat(count, first)
    lowest, highest = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)
    # shares are added up, not values, so that no sum is too large to be represented
    share = count / np.repeat(total, np.diff(np.append(first, len(times))))
    with np.errstate(under="ignore"):
        weighted = np.add.reduceat(mean * share, first)
    return Buckets(
        times=times[first],
        mean=np.clip(weighted, lowest, highest),
        low=lowest,
        high=highest,
        count=total,
    )


def _columns(buckets: Buckets) -> tuple[NDArray[Any], ...]:
    return buckets.times, buckets.mean, buckets.low, buckets.high, buckets.count


def _steps(integers: Integers) -> Integers:
    return np.diff(integers, prepend=0)


def _bits(column: Floats, narrow: bool) -> Integers:
    if narrow:
        return column.astype(np.float32).view(np.int32).astype(np.int64)
    return np.ascontiguousarray(column).view(np.int64)


def _values(bits: Integers, narrow: bool) -> Floats:
    if narrow:
        return bits.astype(np.int32).view(np.float32).astype(np.float64)
    return bits.view(np.float64)


def _is_float32(column: Floats) -> bool:
    with np.errstate(over="ignore", under="ignore"):
        return bool((column.astype(np.float32).astype(np.float64) == column).all())
