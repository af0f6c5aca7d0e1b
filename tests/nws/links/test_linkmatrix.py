"""All pairs at once are the pairs one by one."""

import math

import numpy as np
from hypothesis import given, strategies as st

from nws.links import linkmatrix
from nws.links.composition import Link
from nws.links.linkmatrix import compose, compose_all

HOSTS = ("a", "b", "c", "d", "e", "f")
FIELDS = ("latency_s", "latency_error_s", "bandwidth_Bps", "bandwidth_error_Bps", "measured_at")


def link(latency_s, bandwidth_Bps=1e8, error=0.1, t=5.0):
    return Link(
        latency_s=latency_s,
        latency_error_s=error,
        bandwidth_Bps=bandwidth_Bps,
        bandwidth_error_Bps=bandwidth_Bps / 10,
        measured_at=t,
    )


PAIRS = st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), unique=True, max_size=24)


@given(PAIRS, st.randoms(use_true_random=False), st.integers(1, 40))
def test_linkmatrix_blocks_and_chosen_starts_give_equal_rows(pairs, random, block):
    """Composing pairs takes chosen starts; `test_composition` compares it with all paths there are."""
    links = {pair: link(1.0 + random.random(), 1e6 * random.random(), t=random.random()) for pair in pairs}
    whole, alone = compose_all(HOSTS, links), compose(links, [(a, b) for a in HOSTS for b in HOSTS[:3]])
    linkmatrix._BLOCK, usual = block, linkmatrix._BLOCK
    try:
        parts = compose_all(HOSTS, links)
    finally:
        linkmatrix._BLOCK = usual
    for name in (*FIELDS, "before", "composed"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name), equal_nan=name in FIELDS)
    for i, a in enumerate(HOSTS):
        for j, b in enumerate(HOSTS[:3]):
            assert whole.path(i, j) == alone.get((a, b))


def test_no_links_no_pairs():
    found = compose_all(HOSTS, {})
    assert np.isnan(found.latency_s).all()
    assert not found.composed.any()


def test_links_of_others_and_links_without_latency_are_not_used():
    links = {("a", "z"): link(1.0), ("z", "b"): link(1.0), ("a", "b"): link(math.nan)}
    assert compose_all(HOSTS, links).before[0, 1] == -1


def test_no_hosts():
    assert compose_all((), {}).latency_s.shape == (0, 0)
