"""Chunks and roll-ups as blobs: exact to the last bit, and small for what sensors deliver."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nws.memory.chunks import pack, unpack
from nws.memory.rollups import Buckets, between, joined, pack_buckets, summed_up, unpack_buckets

floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(0, 10**12).map(lambda ms: ms / 1000),
    st.sampled_from([0.0, -0.0, 1e9, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308]),
)


@st.composite
def columns(draw):
    n = draw(st.integers(0, 12))
    kind = draw(
        st.sampled_from(
            [floats, st.floats(width=32, allow_nan=False), st.integers(-(2**60), 2**60).map(float)]
        )
    )
    return [np.array(draw(st.lists(kind, min_size=n, max_size=n)), np.float64) for _ in range(2)]


@settings(max_examples=60, deadline=None)
@given(columns())
def test_chunks_are_exact(pair):
    found = unpack(pack(*pair))
    assert [c.tobytes() for c in found] == [c.tobytes() for c in pair]


def realistic(values):
    """An hour at a period of ten seconds: whole milliseconds, some of them late."""
    rng = np.random.default_rng(1)
    times = np.rint((1.8e9 + 10.0 * np.arange(360) + rng.exponential(0.01, 360)) * 1000) / 1000
    return times, np.asarray(values(rng))


@pytest.mark.parametrize(
    ("values", "bytes_per_sample"),
    [
        (lambda rng: (1e-4 * rng.lognormal(0, 0.3, 360)).astype(np.float32).astype(float), 5.0),
        (lambda rng: np.round(rng.random(360), 3), 3.0),
        (lambda rng: np.full(360, 0.25), 1.1),
        (lambda rng: 4096.0 * rng.integers(2_000_000, 2_010_000, 360), 3.5),
        (lambda rng: rng.random(360), 8.5),
    ],
    ids=["float32 noise", "thousandths", "constant", "pages of memory", "float64 noise"],
)
def test_chunks_are_small(values, bytes_per_sample):
    times, column = realistic(values)
    assert len(pack(times, column)) / 360 < bytes_per_sample


def test_period_with_a_gap_costs_little_more():
    times, column = realistic(lambda rng: np.full(360, 0.5))
    gap = np.concatenate([times[:180], times[180:] + 1200.0])
    assert len(pack(gap, column)) < 1.3 * len(pack(times, column))


@pytest.mark.parametrize(
    ("blob", "reason"),
    [
        (b"", "chunk of version b''"),
        (pack(np.arange(3.0), np.arange(3.0))[:-2], "does not decompress"),
        (
            b"\x02\x05\0\0\0" + pack(np.arange(3.0), np.arange(3.0))[5:],
            "column 1 makes no sense",
        ),
        (b"\x02\x02\0\0\0" + pack(np.arange(3.0), np.arange(3.0))[5:], "bytes inside, expected"),
    ],
)
def test_what_is_no_chunk(blob, reason):
    with pytest.raises(ValueError, match=reason):
        unpack(blob)


moments = st.integers(0, 20_000).map(lambda ds: 1.8e9 + ds / 10)
samples = st.lists(st.tuples(moments, st.one_of(floats, st.floats(-1, 1, width=32))), min_size=1, max_size=25)


def columns_of(pairs):
    return np.array([t for t, _ in pairs]), np.array([v for _, v in pairs])


@settings(max_examples=60, deadline=None)
@given(samples, st.integers(0, 25))
def test_buckets_join_to_what_all_samples_at_once_give(pairs, cut):
    times, values = columns_of(pairs)
    whole = summed_up(times, values, 60)
    parts = joined([summed_up(times[:cut], values[:cut], 60), summed_up(times[cut:], values[cut:], 60)])
    for name in ("times", "low", "high", "count"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist()
    # the mean of large numbers of either sign has no relative precision
    room = 1e-12 * np.maximum(np.abs(whole.low), np.abs(whole.high))
    assert (np.abs(parts.mean / 2 - whole.mean / 2) <= room).all()
    assert ((whole.low <= whole.mean) & (whole.mean <= whole.high)).all()
    for i, t in enumerate(whole.times):
        inside = [v for m, v in pairs if t <= m < t + 60]
        assert (whole.count[i], whole.low[i], whole.high[i]) == (len(inside), min(inside), max(inside))


@settings(max_examples=60, deadline=None)
@given(samples, st.sampled_from([60, 600]))
def test_buckets_as_blobs_are_exact_but_for_a_rounded_mean(pairs, bucket_s):
    buckets = summed_up(*columns_of(pairs), bucket_s)
    found = unpack_buckets(pack_buckets(buckets, bucket_s), bucket_s)
    for name in ("times", "low", "high", "count"):
        assert getattr(found, name).tolist() == getattr(buckets, name).tolist()
    scale = np.maximum(np.abs(buckets.low), np.abs(buckets.high))
    assert (np.abs(found.mean / 2 - buckets.mean / 2) <= 1e-7 * scale + 1e-45).all()
    assert ((found.low <= found.mean) & (found.mean <= found.high)).all()


def test_buckets_between():
    buckets = summed_up(np.arange(0.0, 600.0, 60.0), np.arange(10.0), 60)
    assert list(between(buckets, 60.0, 180.0).mean) == [1, 2, 3]
    assert list(between(buckets, 61.0, 179.0).times) == [120]
    assert len(between(buckets, 1e9, 2e9)) == 0


def test_no_buckets():
    nothing = joined([])
    assert isinstance(nothing, Buckets)
    assert len(nothing) == 0


def test_what_is_no_rollup():
    blob = pack_buckets(summed_up(np.arange(3.0), np.arange(3.0), 60), 60)
    for wrong, reason in [(blob[:3], "version"), (b"\x09" + blob[1:], "version"), (blob[:-1], "decompress")]:
        with pytest.raises(ValueError, match=reason):
            unpack_buckets(wrong, 60)
    with pytest.raises(ValueError, match="roll-up of 9 buckets with"):
        unpack_buckets(blob[:3] + b"\x09" + blob[4:], 60)
