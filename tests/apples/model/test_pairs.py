"""Pair quantities by classes read like float64[H, H]."""

import numpy as np
from hypothesis import given, settings, strategies as st

from apples.model.grid import Grid, Host, LinkRule, Snapshot
from apples.model.pairs import HostClasses, PairValues, combined, listing
from apples.model.snapshotdocument import host_entries, link_entries, snapshot_document

value = st.floats(0.1, 9.0)


@st.composite
def quantities(draw):
    """Return values by classes with a few single pairs, and the same as float64[H, H]."""
    kind = draw(st.lists(st.integers(0, 3), min_size=2, max_size=9))
    kind = np.unique(kind, return_inverse=True)[1]
    hosts, count = len(kind), int(kind.max()) + 1
    table = np.array(draw(st.lists(value, min_size=count**2, max_size=count**2))).reshape(count, count)
    within = np.array(draw(st.lists(value, min_size=count, max_size=count)))
    pairs = draw(st.sets(st.tuples(st.integers(0, hosts - 1), st.integers(0, hosts - 1)), max_size=4))
    keys = np.array(sorted(i * hosts + j for i, j in pairs), dtype=np.int64)
    single = np.array(draw(st.lists(value, min_size=len(keys), max_size=len(keys))))
    classes = HostClasses(hosts, kind, np.bincount(kind), keys)
    dense = table[np.ix_(kind, kind)]
    np.fill_diagonal(dense, within[kind])
    dense.ravel()[keys] = single
    return PairValues(classes, table, within, single), dense


@settings(deadline=None)
@given(quantities(), st.randoms())
def test_pairs_by_classes_read_as_dense_ones(given_, random):
    values, dense = given_
    assert np.array_equal(np.asarray(values), dense)
    off = dense[~np.eye(len(dense), dtype=bool)]
    assert values.most() >= dense.max()
    assert np.all(values.least() <= np.where(np.eye(len(dense), dtype=bool), np.inf, dense).min(axis=1))
    assert set(off) <= set(values.occurring())
    keep = random.sample(range(len(dense)), random.randint(1, len(dense)))
    assert np.array_equal(np.asarray(values.take(keep)), dense[np.ix_(keep, keep)])
    doubled = combined(lambda a, b: a + b, values, values)
    assert np.array_equal(np.asarray(doubled), 2 * dense)


@settings(deadline=None)
@given(quantities(), value)
def test_listed_pair_is_set_alone(given_, new):
    values, dense = given_
    (listed,) = listing([values], [(0, 1)])
    dense = dense.copy()
    dense[0, 1] = new
    assert np.array_equal(np.asarray(listed.set([(0, 1)], [new])), dense)


@given(
    st.lists(st.sampled_from(["x", "y", None]), min_size=2, max_size=6),
    st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "h0", "h1", None]), st.sampled_from(["x", "h1", None]), st.booleans()
        ),
        max_size=4,
    ),
)
def test_links_of_a_grid_are_those_of_its_rules(sites, ends):
    """The last of the most specific rules, host by host."""
    hosts = tuple(Host(name=f"h{i}", site=site) for i, site in enumerate(sites))
    rules = tuple(
        LinkRule(ends=(a, b), latency_s=1.0 + k, bandwidth_Bps=1e6, one_way=one_way)
        for k, (a, b, one_way) in enumerate(ends)
    )
    latency = Grid(name="g", hosts=hosts, links=rules).nominal_links()[0]

    def fit(end, host):
        return 0 if end is None else 2 if end == host.name else 1 if end == host.site else None

    for i, a in enumerate(hosts):
        for j, b in enumerate(hosts):
            if i == j:
                continue
            fits = []
            for rule in rules:
                for one, other in [(a, b)] if rule.one_way else [(a, b), (b, a)]:
                    ranks = fit(rule.ends[0], one), fit(rule.ends[1], other)
                    if None not in ranks:
                        fits.append((sum(ranks), rule.one_way, rule.latency_s))
            assert latency[i, j] == (max(fits)[2] if fits else 1e-4)


def test_document_of_classes_has_the_value_of_each_pair():
    hosts = tuple(Host(name=f"{site}{k:03d}", site=site) for site in "ab" for k in range(200))
    links = (
        LinkRule(latency_s=1e-2, bandwidth_Bps=1e6),
        LinkRule(ends=("a", "a"), latency_s=1e-4, bandwidth_Bps=1e8),
        LinkRule(ends=("a", "b"), latency_s=3e-2, bandwidth_Bps=1e6, loss=0.01, one_way=True),
        LinkRule(ends=("a007", "b003"), latency_s=5e-2, bandwidth_Bps=1e6),
    )
    snapshot = Snapshot.nominal(Grid(name="g", hosts=hosts, links=links))
    document = snapshot_document(snapshot)
    assert [h["host"] for h in document["hosts"]] == ["a[000-199]", "b[000-199]"]
    assert len(host_entries(document)) == len(hosts)
    pairs = [(i, j) for i in range(0, 400, 7) for j in range(0, 400, 11) if i != j] + [(7, 203), (203, 7)]
    entries = link_entries(document, [(hosts[i].name, hosts[j].name) for i, j in pairs])
    for (i, j), entry in zip(pairs, entries, strict=True):
        assert entry["latency_s"] == snapshot.latency_s[i, j]
        assert entry.get("loss", 0.0) == snapshot.loss[i, j]
    assert len(str(document)) < 4000
