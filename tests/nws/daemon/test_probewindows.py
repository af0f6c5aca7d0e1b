"""Probes within turns: a whole round, never beyond the end, the dead last; a schedule that changes."""

import pytest

from nws.base.errors import ProbeError
from nws.daemon.probewindows import ProbeWindows
from nws.links.cliques import Clique, schedule
from nws.timing.periodic import Counts
from nws.timing.steadyclock import SteadyClock

START = 1_000_000.0


class Net:
    """Peers that take some time to probe, a clock that this time moves, and what was measured when."""

    def __init__(self):
        self.t = START
        self.clock = SteadyClock(wall=lambda: self.t + 500, counter=lambda: self.t)
        self.takes, self.dead, self.log, self.said = {}, set(), [], []
        self.counts = Counts()
        self.stopping = False
        self.turns = ProbeWindows(
            "a",
            self.clock,
            probe=self.probe,
            keep=lambda found: None,
            say=self.said.append,
            stopping=lambda: self.stopping,
        )

    def probe(self, peer, address, *, within_s, patience_s):
        start = self.t
        takes = self.takes.get(peer, 0.01)
        if peer in self.dead:
            self.t += min(patience_s, within_s)
            raise ProbeError(f"{peer} is silent")
        self.t += min(takes, within_s)
        if takes > within_s:
            raise ProbeError(f"{peer}: before the time for probes was over")
        self.log.append((peer, start, self.t))
        return []

    def set_clock(self):
        self.clock.observe(self.t, sent=self.t, received=self.t)

    def learn(self, *cliques, version=1, effective_from=START, **options):
        made = schedule(
            [Clique(name=f"c{n}", members=tuple(c)) for n, c in enumerate(cliques)],
            version=version,
            effective_from=effective_from,
            **{"frame_s": 2.0, "guard_s": 0.1, **options},
        )
        self.turns.learn(made, {h: (f"10.0.0.{ord(h)}", 99) for h in "abcdefghijklmnopxy"})
        return made

    def go_on(self, seconds):
        """Run the job as the timetable would, for so long."""
        end = self.t + seconds
        while True:
            delay = self.turns.run(self.counts)
            assert delay >= 0
            if self.t + delay > end:
                self.t = max(self.t, end)
                return
            self.t += delay

    def probed(self):
        return "".join(peer for peer, *_ in self.log)


@pytest.fixture
def net():
    net = Net()
    net.set_clock()
    return net


def test_no_turn_is_taken_before_the_server_has_told_the_time():
    net = Net()
    net.learn("ab")
    net.go_on(100)
    assert net.log == []
    net.set_clock()
    net.go_on(100)
    assert net.log


def test_peer_once_a_turn_and_never_outside(net):
    made = net.learn("abc")
    net.go_on(60)
    assert net.probed() == "bc" * 10
    assert (net.counts.done, net.counts.failed, net.counts.missed) == (20, 0, 0)
    for _, start, end in net.log:
        turn = made.turn("a", start)
        assert turn is not None
        assert end <= turn.end


def test_round_longer_than_a_turn_goes_on_in_the_next(net):
    made = net.learn("abcdef")
    net.takes = dict.fromkeys("bcdef", 0.7)
    net.go_on(120)
    # two fit into 1.8 s; a third is begun, and comes first in the next turn
    assert net.probed().startswith("bcdef" * 3)
    assert net.counts.failed == 0
    assert all(end <= made.turn("a", start).end for _, start, end in net.log)


def test_link_that_no_turn_is_long_enough_for_fails_and_holds_up_nobody(net):
    net.learn("abcd")
    net.takes["c"] = 5.0
    net.go_on(8 * 12)
    assert set(net.probed()) == {"b", "d"}
    assert net.probed().count("b") >= 5
    assert net.probed().count("d") >= 5
    assert net.counts.failed >= 2
    assert net.said == ["network: c: before the time for probes was over"]


def test_dead_peers_come_last_and_are_told_of_once(net):
    net.learn("abcd")
    net.dead = {"b"}
    net.go_on(80)
    assert net.probed() == "cd" * 10
    assert net.counts.failed == 10
    assert net.said == ["network: b is silent"]
    assert net.turns.wants_news
    net.dead = set()
    net.go_on(16)
    assert net.probed().endswith("cdbbcd")
    assert net.said == ["network: b is silent", "network: b answers again"]


def test_half_of_all_peers_dead_cost_the_others_nothing(net):
    net.learn("abcdefghijklmnop", frame_s=4.0)
    net.dead = set("bcdefghi")
    net.takes = dict.fromkeys("jklmnop", 0.05)
    net.go_on(64 * 4)
    net.log.clear()
    net.go_on(64 * 4)
    assert {peer: net.probed().count(peer) for peer in "jklmnop"} == dict.fromkeys("jklmnop", 4)


def test_turns_slept_through_are_missed_and_told(net):
    net.learn("ab")
    net.go_on(9)
    done = net.counts.done
    net.t += 100
    net.go_on(8)
    assert net.counts.missed in (24, 25, 26)
    assert net.counts.done in (done + 2, done + 3)
    (said,) = net.said
    assert "turns were missed: this host was busy or asleep" in said


def test_two_cliques_have_different_turns(net):
    made = net.learn("ab", "ac")
    net.go_on(40)
    assert net.probed().count("b") == net.probed().count("c") == 10
    assert {made.turn("a", start).clique for peer, start, _ in net.log if peer == "b"} == {"c0"}


def test_new_schedule_counts_when_it_is_in_force_and_no_turn_reaches_across(net):
    net.learn("ab")
    net.learn("ac", version=2, effective_from=START + 41.0)
    net.go_on(100)
    last_old = max(end for peer, _, end in net.log if peer == "b")
    first_new = min(start for peer, start, _ in net.log if peer == "c")
    assert last_old <= START + 41.0 <= first_new
    assert net.turns.version == 2
    assert net.counts.missed == 0


def test_schedule_for_now_is_taken_over_at_once(net):
    net.learn("ab")
    net.go_on(10)
    net.learn("ac", version=2, effective_from=net.t)
    net.log.clear()
    net.go_on(20)
    assert set(net.probed()) == {"c"}


def test_who_is_admitted(net):
    net.learn("ab", "bc", "xy")
    assert net.turns.admits(f"10.0.0.{ord('b')}")
    assert not net.turns.admits(f"10.0.0.{ord('c')}")
    assert not net.turns.admits("10.0.0.1")


def test_hosts_that_answer_no_probes_are_not_probed(net):
    made = net.learn("abc")
    net.turns.learn(made, {"b": ("10.0.0.9", 0), "c": ("10.0.0.10", 5)})
    net.go_on(30)
    assert set(net.probed()) == {"c"}


def test_alone_it_waits(net):
    net.learn("bc")
    assert net.turns.run(net.counts) == 60.0
    assert net.counts.accounted == 0


def test_stop_ends_a_turn_between_two_probes(net):
    net.learn("abcdef")
    original = net.turns._probe

    def probe(*arguments, **options):
        net.stopping = True
        return original(*arguments, **options)

    net.turns._probe = probe
    net.go_on(12)
    assert len(net.log) == 1
