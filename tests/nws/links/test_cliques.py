"""Turns: never two at once where it would matter, everybody in time, and nobody's death costs another's turn."""

import itertools
import json

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from nws.base.errors import UsageError
from nws.links.cliques import Clique, Schedule, automatic, pairs, schedule
from tests.transcripts import recorded

HOSTS = [f"h{n}" for n in range(8)]
START = 1_700_000_000.0


@st.composite
def some_cliques(draw):
    count = draw(st.integers(1, 4))
    return tuple(
        Clique(
            name=f"c{n}",
            members=tuple(draw(st.lists(st.sampled_from(HOSTS), min_size=1, max_size=6, unique=True))),
            every_s=draw(st.none() | st.floats(1.0, 120.0)),
        )
        for n in range(count)
    )


def plan(cliques, **options):
    return schedule(cliques, version=1, effective_from=START, frame_s=6.0, **options)


def all_turns(schedule, until):
    """Every turn of every host between the start and `until`."""
    found = []
    for host in HOSTS:
        turn = schedule.next_turn(host, START)
        while turn is not None and turn.start < until:
            found.append(turn)
            turn = schedule.next_turn(host, turn.end)
    return found


@given(some_cliques())
@settings(max_examples=60, deadline=None)
def test_turns_of_cliques_with_a_common_member_never_overlap(cliques):
    made = plan(cliques)
    members = {c.name: set(c.members) for c in cliques}
    turns = sorted(all_turns(made, START + 300), key=lambda t: t.start)
    for one, two in itertools.combinations(turns, 2):
        if two.start >= one.end:
            continue
        assert not members[one.clique] & members[two.clique], (one, two)


@given(some_cliques())
@settings(max_examples=60, deadline=None)
def test_ordered_pair_has_its_turn_within_the_stated_time(cliques):
    made = plan(cliques)
    rounds = {c.name: made.round_s(c.name) for c in cliques}
    for clique in cliques:
        if clique.every_s is not None:
            assert rounds[clique.name] <= max(clique.every_s, len(clique.members) * 6.0) + 1e-6
    longest = max(rounds.values())
    turns = all_turns(made, START + 3 * longest)
    for here, there in pairs(cliques):
        starts = [t.start for t in turns if t.holder == here and there in t.peers]
        (name,) = {t.clique for t in turns if t.holder == here and there in t.peers}
        gaps = [b - a for a, b in itertools.pairwise([START, *starts])]
        assert max(gaps) <= rounds[name] + 6.0


@given(some_cliques(), st.sampled_from(HOSTS))
@settings(max_examples=40, deadline=None)
def test_lost_holder_costs_nobody_else_a_turn(cliques, dead):
    # turns are a function of the clock: what a host computes does not depend on who else still does
    made = plan(cliques)
    before = [t for t in all_turns(made, START + 120) if t.holder != dead]
    others = []
    for host in HOSTS:
        if host != dead:
            own = made.seen_by(host)
            turn = own.next_turn(host, START)
            while turn is not None and turn.start < START + 120:
                others.append(turn)
                turn = own.next_turn(host, turn.end)
    assert others == before


@given(some_cliques(), st.floats(0, 500))
@settings(max_examples=60, deadline=None)
def test_turn_now_is_one_of_the_turns(cliques, later):
    made = plan(cliques)
    turns = all_turns(made, START + 520)
    for host in HOSTS:
        now = START + later
        held = [t for t in turns if t.holder == host and t.start <= now < t.end]
        assert made.turn(host, now) == (held[0] if held else None)


@given(some_cliques())
@settings(max_examples=40, deadline=None)
def test_schedule_is_the_same_after_a_journey(cliques):
    made = plan(cliques)
    assert Schedule.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_turn_keeps_its_guard_at_both_ends():
    made = plan((Clique(name="a", members=("h0", "h1")), Clique(name="b", members=("h1", "h2"))), guard_s=0.5)
    turn = made.next_turn("h0", START)
    assert turn.end - turn.start == pytest.approx(6.0 / 2 - 2 * 0.5)
    assert (turn.start - 0.5) % 3.0 == pytest.approx(0.0, abs=1e-6)


def test_nothing_happens_before_it_is_in_force():
    made = schedule((Clique(name="a", members=("h0", "h1")),), version=2, effective_from=START + 2, frame_s=4)
    assert all(made.turn(h, START + x) is None for h in HOSTS for x in (0.5, 1.0, 1.9))
    first = min(made.next_turn(h, START - 100).start for h in ("h0", "h1"))
    assert START + 2 <= first <= START + 8


def test_pair_in_two_cliques_is_probed_in_the_first():
    made = plan((Clique(name="a", members=("h0", "h1")), Clique(name="b", members=("h0", "h1", "h2"))))
    turns = all_turns(made, START + 100)
    assert {t.clique for t in turns if "h1" in t.peers and t.holder == "h0"} == {"a"}
    assert {t.peers for t in turns if t.clique == "b"} == {("h2",), ("h0", "h1")}
    assert (made.peers("h0", "b"), made.peers("h5", "b")) == (("h2",), ())


def test_who_has_nobody_to_probe_has_no_turn():
    made = plan((Clique(name="alone", members=("h0",)),))
    assert made.next_turn("h0", START) is None
    assert made.turn("h0", START) is None
    assert made.next_turn("stranger", START) is None


@given(st.integers(1, 300), st.integers(2, 20), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_automatic_cliques_connect_all_and_stay_linear(count, most, sites):
    hosts = [f"n{i:03d}" for i in range(count)]
    at = {h: f"s{i % sites}" for i, h in enumerate(hosts) if i % (sites + 1)}
    made = automatic(hosts, at, most)
    assert all(2 <= len(c.members) <= most for c in made)
    assert len({c.name for c in made}) == len(made)
    graph = nx.Graph(pairs(made))
    graph.add_nodes_from(hosts)
    assert nx.is_connected(graph)
    # at each level at most one clique for every two hosts of the level below
    assert len(pairs(made)) <= 2 * most * count


def test_hosts_of_one_site_are_together_and_sites_meet_through_their_first():
    made = automatic(["e2", "e1", "w1", "w2"], {"e1": "east", "e2": "east", "w1": "west", "w2": "west"})
    assert [(c.name, c.members) for c in made] == [
        ("site:east", ("e1", "e2")),
        ("site:west", ("w1", "w2")),
        ("level:2", ("e1", "w1")),
    ]


def test_thousand_hosts_need_three_turns_a_frame():
    made = automatic([f"n{i}" for i in range(1000)], {})
    assert schedule(made, version=1, effective_from=0.0).colours == 3
    assert len(pairs(made)) < 16 * 1000


@recorded("nws/links/unschedulable.txt", "cliques", "options")
def test_what_cannot_be_scheduled(answered, cliques, options):
    made = [Clique(name=n, members=tuple(m.split())) for n, m in cliques]
    with pytest.raises(UsageError) as caught:
        schedule(made, version=1, effective_from=0.0, **options)
    answered(str(caught.value))


def test_cliques_that_are_none():
    with pytest.raises(UsageError, match="names a member twice: h0, h0"):
        Clique(name="a", members=("h0", "h0"))
    with pytest.raises(UsageError, match=r"every -1\.0 s; expected a positive"):
        Clique(name="a", members=("h0",), every_s=-1.0)
    with pytest.raises(UsageError, match="at most 1 members: expected 2 or more"):
        automatic(["a"], {}, 1)
    with pytest.raises(UsageError, match="no clique is called 'b'; there are a"):
        plan((Clique(name="a", members=("h0",)),)).round_s("b")


@recorded("nws/links/wrong_schedules.txt", "change")
def test_documents_that_are_no_schedule(answered, change):
    document = plan((Clique(name="a", members=("h0", "h1")),)).to_json() | change
    with pytest.raises(UsageError) as caught:
        Schedule.from_json(document)
    answered(str(caught.value))
