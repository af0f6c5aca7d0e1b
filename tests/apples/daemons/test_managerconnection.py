"""A node's connection to the manager: what it hears, and what it makes of a network that changes under it."""

import socket
import threading
from types import SimpleNamespace

import pytest

from apples.daemons import heartbeatreceiver, managerconnection
from apples.daemons.ipc.eventloop import Loop
from apples.daemons.ipc.timer import now
from apples.daemons.ipc.wire import DatagramSeal, HeartbeatMessage, random_word
from apples.daemons.managerconnection import ManagerConnection
from apples.daemons.nodemessages import Hello
from apples.daemons.paths import read_node_key
from apples.daemons.settings import parse_address
from tests.testbed.localcluster import kill

KEY = b"k" * 32


class Air:
    """A link that is connected, and datagrams that reach it. now : of its clock.  heard : beats it has acted on"""

    def __init__(self):
        self.now, self.heard, self.number = 1000.0, [], 0
        self.loop, self.session = Loop(), random_word()
        hooks = SimpleNamespace(
            hello=lambda *words: None,
            welcome=lambda document: None,
            line=lambda document: None,
            heartbeat=lambda beat, *instants: self.heard.append(beat.number),
            lost=lambda reason: None,
        )
        self.link = ManagerConnection(self.loop, ("127.0.0.1", 1), KEY, hooks)
        self.link.receiver.seal = self.link.receiver.group_seal = DatagramSeal(KEY, self.session)
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def beat(self, *, multicast, slice_s=0.1):
        """One more, a slice after the last."""
        self.number += 1
        self.now += slice_s
        beat = HeartbeatMessage(self.number, 1, self.now, 0, slice_s)
        self.far.send(DatagramSeal(KEY, self.session).beat(beat))
        self.link.receiver._receive(self.near, multicast=multicast)


@pytest.fixture
def air(monkeypatch):
    made = Air()
    monkeypatch.setattr(heartbeatreceiver, "raw", lambda: made.now)
    yield made
    made.near.close()
    made.far.close()
    made.link.close()
    made.loop.close()


def test_network_that_stops_carrying_multicast_is_said_to(air):
    air.beat(multicast=True)
    assert air.link.receiver.multicast_heard
    for _ in range(9):
        air.beat(multicast=False)
    assert air.link.receiver.multicast_heard
    for _ in range(2):
        air.beat(multicast=False)
    assert not air.link.receiver.multicast_heard
    air.beat(multicast=True)
    assert air.link.receiver.multicast_heard
    assert air.heard == list(range(1, 14))


def test_long_slices_leave_multicast_the_time_of_three(air):
    air.beat(multicast=True, slice_s=2.0)
    air.now += 5.9
    assert air.link.receiver.multicast_heard
    air.now += 0.2
    assert not air.link.receiver.multicast_heard


class Line:
    """A stream as far as a link closes it. reasons : why it was"""

    def __init__(self):
        self.reasons = []

    def close(self, reason="closed"):
        self.reasons.append(reason)


def test_beats_are_as_good_as_lines_to_know_that_the_manager_is_there(air):
    air.link.welcomed, air.link._stream = True, Line()
    air.beat(multicast=False)
    heard_at = now()
    air.link.tick(heard_at + 2.9, silent=False)
    assert air.link._stream.reasons == []
    air.link.tick(heard_at + 3.1, silent=False)
    assert air.link._stream.reasons == ["no sign of life for 3 s"]


class Names:
    """A name server that answers when it is let. asked : how often"""

    def __init__(self, monkeypatch):
        self.asked, self.may_answer, self.answer = 0, threading.Event(), None
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host, port, **options):
        self.asked += 1
        self.may_answer.wait(20)
        if self.answer is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", self.answer)]


class Caller:
    """A link to a manager of a name, in a loop that runs until it is lost. goes_on : not even then"""

    def __init__(self):
        self.goes_on = False
        self.loop, self.reasons, self.turns = Loop(), [], 0
        nothing = lambda *what: None  # noqa: E731
        hooks = SimpleNamespace(
            hello=lambda *words: None, welcome=nothing, line=nothing, heartbeat=nothing, lost=self.lost
        )
        self.link = ManagerConnection(self.loop, ("head", 7171), KEY, hooks)

    def lost(self, reason):
        self.reasons.append(reason)
        if not self.goes_on:
            self.loop.stop()

    def run(self):
        self.loop._stopped = False
        self.loop.run()


@pytest.fixture
def caller():
    made = Caller()
    yield made
    made.link.close()
    made.loop.close()


def test_name_server_that_does_not_answer_holds_nothing_up(caller, monkeypatch):
    names = Names(monkeypatch)
    caller.link.start()
    # the loop goes on; only that lets the name server answer
    caller.loop.after(0.01, names.may_answer.set)
    caller.run()
    assert caller.reasons == ["head:7171 cannot be looked up: Temporary failure in name resolution"]


def test_last_address_serves_while_the_name_cannot_be_looked_up(caller, monkeypatch):
    monkeypatch.setattr(managerconnection, "_RETRY_S", 0.001)
    monkeypatch.setattr(managerconnection, "_LOOK_UP_S", 0.0)
    names = Names(monkeypatch)
    names.may_answer.set()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names.answer = listener.getsockname()
        listener.settimeout(20)
        caller.goes_on = True
        caller.link.start()
        caller.loop.watch(listener.fileno(), caller.loop.stop)
        caller.run()
        listener.accept()[0].close()
        # the network is cut, and the name server beyond it
        names.may_answer.clear()
        for _ in range(3):
            caller.run()
            listener.accept()[0].close()
        caller.loop.forget(listener.fileno())
        assert names.asked == 2
        names.answer = None
        names.may_answer.set()


def test_what_can_be_no_name_is_said_to_be_none(caller):
    caller.link._lookup._place = ("x" * 70 + ".example", 1)
    caller.link.start()
    caller.run()
    assert "head:7171 cannot be looked up: " in caller.reasons[0]


def test_lookup_that_ends_after_its_link_does_no_harm(monkeypatch):
    names, made = Names(monkeypatch), Caller()
    made.link.start()
    made.link.close()
    made.loop.close()
    names.may_answer.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "_resolve" in thread.name:
            thread.join(20)
    assert made.reasons == []


def test_without_threads_it_is_tried_again_later(caller, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    caller.link.start()
    assert caller.reasons == ["no connection can be tried: can't start new thread"]
    assert caller.link._attempt is not None


def test_manager_that_listens_again_is_refused_no_longer(local_cluster):
    site, loop, refused = local_cluster(), Loop(), []
    site.start_manager()
    kill(site.manager)

    def lost(reason):
        refused.append(link.refused_since)
        site.start_manager()

    def welcome(document):
        refused.append(link.refused_since)
        loop.stop()

    def hello(nonce, word, shown):
        about = {"nonce": nonce, "word": word, "shown": shown}
        return Hello(node="a", processors=1, policy="gang", processes=[], placed={}, **about)

    hooks = SimpleNamespace(
        hello=hello, welcome=welcome, line=lambda line: None, heartbeat=lambda *beat: None, lost=lost
    )
    link = ManagerConnection(loop, parse_address(site.manager_address), read_node_key(site.key, "a"), hooks)
    link.start()
    loop.run()
    link.close()
    loop.close()
    first, then = refused
    assert first is not None
    assert then is None
