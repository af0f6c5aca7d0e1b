"""Grid and snapshot: which link rule holds, what restricting keeps, what the document lists."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from apples.model.grid import (
    ETHERNET,
    LISTED_PAIRS,
    WITHIN_HOST,
    Conditions,
    Estimate,
    Grid,
    Host,
    LinkRule,
    Snapshot,
)
from apples.model.snapshotdocument import snapshot_document

EAST, WEST = (Host(name="e", site="east"), Host(name="w", site="west"))
SLOW = LinkRule(latency_s=0.02, bandwidth_Bps=1e6)


def link(grid, a, b):
    latency, bandwidth, _ = grid.nominal_links()
    i, j = (next(k for k, h in enumerate(grid.hosts) if h.name == name) for name in (a, b))
    return latency[i, j], bandwidth[i, j]


def of(rule):
    return rule.latency_s, rule.bandwidth_Bps


def test_grid_that_says_nothing_has_ethernet_between_hosts():
    grid = Grid(name="g", hosts=(EAST, WEST))
    assert link(grid, "e", "w") == of(ETHERNET)
    assert link(grid, "e", "e") == of(WITHIN_HOST)


@pytest.mark.parametrize("ends", [("e", "w"), ("w", "e"), ("east", "west"), ("e", None), ("west", "e")])
def test_rule_holds_in_both_directions(ends):
    grid = Grid(name="g", hosts=(EAST, WEST), links=(LinkRule(ends=ends, latency_s=1.0, bandwidth_Bps=2.0),))
    assert link(grid, "e", "w") == link(grid, "w", "e") == (1.0, 2.0)


def test_most_specific_rule_wins_and_of_equals_the_last():
    pair = LinkRule(ends=("e", "w"), latency_s=1.0, bandwidth_Bps=1.0)
    sites = [LinkRule(ends=("east", "west"), latency_s=x, bandwidth_Bps=1.0) for x in (2.0, 3.0)]
    hosts = (EAST, WEST, Host(name="e2", site="east"))
    grid = Grid(name="g", hosts=hosts, links=(pair, *sites, SLOW))
    assert link(grid, "e", "w")[0] == 1.0
    assert link(grid, "e2", "w")[0] == 3.0
    assert link(grid, "e", "e2") == of(SLOW)


def test_host_by_name():
    grid = Grid(name="g", hosts=(EAST, WEST))
    assert grid.host("w") is WEST
    with pytest.raises(KeyError):
        grid.host("north")


@pytest.fixture
def snapshot():
    hosts = tuple(Host(name=f"h{i}", slots=i + 1) for i in range(4))
    return Snapshot.nominal(Grid(name="g", hosts=hosts, links=(SLOW,)), memory_bytes=1e9, taken_at=5.0)


def test_restricting_keeps_order_and_pairs(snapshot):
    snapshot = replace(snapshot, latency_s=snapshot.latency_s.set([(1, 3)], [7.0]))
    part = snapshot.restrict(["h3", "h1"])
    assert [h.name for h in part.hosts] == ["h1", "h3"]
    assert (part.latency_s[0, 1], part.latency_s[1, 0]) == (7.0, SLOW.latency_s)
    assert [c.capacity.value for c in part.conditions] == [2.0, 4.0]
    assert part.taken_at == 5.0


def test_graph_says_the_same_as_the_arrays(snapshot):
    graph = snapshot.graph()
    assert graph.number_of_edges() == 4 * 3
    assert graph.edges["h0", "h2"]["latency_s"] == snapshot.latency_s[0, 2]
    assert graph.nodes["h1"]["host"].slots == 2


def test_document_lists_only_pairs_that_differ(snapshot):
    snapshot = replace(snapshot, latency_s=snapshot.latency_s.set([(1, 3)], [7.0]))
    links = json.loads(json.dumps(snapshot_document(snapshot), allow_nan=False))["links"]
    assert links["usual"] == {"latency_s": 0.02, "bandwidth_Bps": 1e6}
    assert links["pairs"] == [{"from": "h1", "to": "h3", "latency_s": 7.0, "bandwidth_Bps": 1e6}]


def test_document_of_one_host_has_no_pairs():
    document = snapshot_document(Snapshot.nominal(Grid(name="g", hosts=(EAST,))))
    assert (document["links"]["usual"], document["links"]["pairs"]) == (None, [])
    assert document["hosts"][0]["memory_bytes"]["value"] is None


shares = st.floats(0.0, 1.0)


@given(shares, st.floats(0.0, 8.0, allow_subnormal=False), st.integers(1, 8), st.integers(1, 8))
def test_shares_never_exceed_what_the_host_has(availability, capacity, ranks, slots):
    conditions = Conditions(
        availability=Estimate(value=availability),
        memory_bytes=Estimate(value=1.0),
        capacity=Estimate(value=capacity),
    )
    share = conditions.share(ranks, slots)
    assert share <= availability
    assert share * ranks <= capacity * (1 + 1e-12)


def test_without_a_capacity_slots_times_availability_is_shared():
    conditions = Conditions(availability=Estimate(value=0.5), memory_bytes=Estimate(value=1.0))
    assert np.allclose([conditions.share(n, 2) for n in (1, 2, 4)], [0.5, 0.5, 0.25])


def test_document_of_many_hosts_lists_few_pairs():
    hosts = tuple(Host(name=f"h{k}") for k in range(100))
    whole = Snapshot.nominal(Grid(name="big", hosts=hosts))
    latency = np.arange(100.0 * 100).reshape(100, 100)
    links = snapshot_document(replace(whole, latency_s=latency))["links"]
    assert (len(links["pairs"]), links["omitted"]) == (LISTED_PAIRS, 100 * 99 - 1 - LISTED_PAIRS)


def test_document_tells_where_each_pair_comes_from(snapshot):
    ages = np.full(snapshot.latency_s.shape, np.nan)
    ages[1, 3], ages[0, 1], ages[1, 1] = 12.0, 3.0, 99.0
    latency = snapshot.latency_s.set([(1, 3), (1, 2)], [7.0, 8.0])
    composed = np.zeros(ages.shape, bool)
    composed[1, 3] = True
    whole = replace(
        snapshot, latency_s=latency, pair_age_s=ages, composed=composed, through={("h1", "h3"): ("h0",)}
    )
    told = snapshot_document(whole)["links"]
    assert snapshot_document(whole.restrict(["h0", "h1"]))["links"]["composed"] == 0
    assert told["pairs"] == [
        {"from": "h1", "to": "h2", "latency_s": 8.0, "bandwidth_Bps": 1e6, "age_s": None},
        {"from": "h1", "to": "h3", "latency_s": 7.0, "bandwidth_Bps": 1e6, "age_s": 12.0, "through": ["h0"]},
    ]
    assert (told["measured"], told["composed"], told["nominal"], told["oldest_s"]) == (1, 1, 10, 12.0)
