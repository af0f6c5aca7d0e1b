"""A node's connection to the manager: what it hears, and what it makes of a network that changes under it."""

import socket

import pytest

from apples.daemons import link as links
from apples.daemons.link import Hooks, Link
from apples.daemons.loop import Loop
from apples.daemons.wire import BeatMessage, BeatSeal, random_word

KEY = b"k" * 32


class Air:
    """A link that is connected, and datagrams that reach it. now : of its clock.  heard : beats it has acted on"""

    def __init__(self):
        self.now, self.heard, self.number = 1000.0, [], 0
        self.loop, self.session = Loop(), random_word()
        hooks = Hooks(
            hello=dict,
            welcome=lambda document: None,
            line=lambda document: None,
            beat=lambda beat, instant: self.heard.append(beat.number),
            lost=lambda reason: None,
        )
        self.link = Link(self.loop, ("127.0.0.1", 1), KEY, hooks)
        self.link._beats = BeatSeal(KEY, self.session)
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def beat(self, *, multicast, slice_s=0.1):
        """One more, a slice after the last."""
        self.number += 1
        self.now += slice_s
        beat = BeatMessage(self.number, 1, 0, self.now, slice_s)
        self.far.send(BeatSeal(KEY, self.session).beat(beat))
        self.link._datagram(self.near, multicast=multicast)


@pytest.fixture
def air(monkeypatch):
    made = Air()
    monkeypatch.setattr(links, "raw", lambda: made.now)
    yield made
    made.near.close()
    made.far.close()
    made.link.close()
    made.loop.close()


def test_a_network_that_stops_carrying_multicast_is_said_to(air):
    air.beat(multicast=True)
    assert air.link.multicast_heard
    for _ in range(9):
        air.beat(multicast=False)
    assert air.link.multicast_heard
    for _ in range(2):
        air.beat(multicast=False)
    assert not air.link.multicast_heard
    air.beat(multicast=True)
    assert air.link.multicast_heard
    assert air.heard == list(range(1, 14))


def test_long_slices_leave_multicast_the_time_of_three(air):
    air.beat(multicast=True, slice_s=2.0)
    air.now += 5.9
    assert air.link.multicast_heard
    air.now += 0.2
    assert not air.link.multicast_heard
