"""The machine manager while nodes come and go, all at once and half way through."""

import json
import random
import select
import signal
import socket
import struct
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from apples.coscheduling.policies import POLICIES
from apples.daemons.ipc.timer import raw
from apples.daemons.ipc.wire import (
    SILENCE_S,
    DatagramSeal,
    PresenceMessage,
    Seal,
    derive,
    node_key,
    random_word,
)
from apples.daemons.managerdaemon import ManagerDaemon
from apples.daemons.paths import enrolled, read_key, read_manager_key, read_node_key
from apples.daemons.settings import SharingSettings
from apples.errors import ConfigError
from tests.testbed.localcluster import kill

KEY = b"k" * 32


@pytest.fixture
def manager():
    """A manager in this process. said : lines of its log"""
    said = []
    settings = SharingSettings(policy=POLICIES["gang"], listen=("127.0.0.1", 0), slice_s=0.1)
    made = ManagerDaemon(settings, KEY, log=said.append)
    made.said = said
    yield made
    made.close()


def test_nodes_that_leave_all_at_once_leave_the_manager_standing(local_cluster):
    site = local_cluster(dict.fromkeys("abcde", "0"))
    site.start()
    process = site.spin("x", 0, 1, "a")
    # it hears of all of them in one turn of its loop
    site.manager.send_signal(signal.SIGSTOP)
    for name in "bcde":
        kill(site.nodes[name])
    site.manager.send_signal(signal.SIGCONT)
    site.wait(lambda: set(site.view().get("nodes", ())) == {"a"})
    site.wait(lambda: site.view()["jobs"]["x"]["state"] == "in")
    assert site.manager.poll() is None
    kill(process)


def test_node_that_has_gone_before_it_is_welcomed_is_not_there(local_cluster):
    site = local_cluster()
    site.start()
    host, _, port = site.manager_address.rpartition(":")
    key = read_key(site.key)
    with socket.create_connection((host, int(port))) as stranger:
        greeting = json.loads(stranger.makefile("rb").readline())
        seal = Seal(
            derive(node_key(key, "ghost"), "hello", greeting["challenge"]), ours="node", theirs="manager"
        )
        hello = {"is": "hello", "node": "ghost", "policy": "gang", "processors": 1, "nonce": random_word()}
        hello |= {"word": random_word(), "shown": 0, "placed": {}, "processes": []}
        site.manager.send_signal(signal.SIGSTOP)
        stranger.sendall(seal.line(_text(hello)))
        # what was sent can be read still, but nothing be sent back
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    site.manager.send_signal(signal.SIGCONT)
    site.wait(lambda: "node ghost is lost" in site.log())
    site.wait(lambda: set(site.view()["nodes"]) == {"a"})
    assert "node ghost has joined" not in site.log()


def test_who_asks_is_told_how_all_nodes_are_now(local_cluster):
    site = local_cluster({"a": "0", "b": "0"})
    site.start()
    site.spin("x", 0, 1, "b")
    site.wait(lambda: site.view()["jobs"]["x"]["state"] == "in")
    first, asked = site.ask("a", "view"), time.monotonic()
    time.sleep(0.5)
    second, passed = site.ask("a", "view"), time.monotonic() - asked
    (before,), (after,) = (view["nodes"]["b"]["report"]["processes"] for view in (first, second))
    # What was told in the last fifth of a second counts as now.
    assert after["here_s"] - before["here_s"] >= passed - 0.25


def test_node_that_hangs_does_not_keep_people_waiting(local_cluster):
    site = local_cluster({"a": "0", "b": "0"})
    site.start()
    site.wait(lambda: site.ask("a", "view")["nodes"]["b"]["report"])
    site.nodes["b"].send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    begun = time.monotonic()
    view = site.ask("a", "view")
    took_s = time.monotonic() - begun
    site.nodes["b"].send_signal(signal.SIGCONT)
    assert 0.25 < took_s < 1.0
    # What it told before stands, and for how long.
    assert view["nodes"]["b"]["told_s"] > 0.5
    assert view["nodes"]["b"]["report"]["policy"] == "gang"


def test_manager_that_was_stopped_for_long_calls_nobody_silent_who_was_not(local_cluster):
    site = local_cluster(dict.fromkeys("abcd", "0"))
    site.start()
    site.manager.send_signal(signal.SIGSTOP)
    time.sleep(SILENCE_S - 0.5)
    site.manager.send_signal(signal.SIGCONT)
    site.wait(lambda: set(site.view().get("nodes", ())) == set("abcd"))
    assert "is lost" not in site.log()


def test_node_is_where_its_last_datagram_came_from(manager):
    word, seal = random_word(), DatagramSeal(KEY, manager._admission.session)
    peer = manager.heartbeats.words[word] = SimpleNamespace(
        shown=3, address=None, heard_at=0.0, datagrams=seal
    )
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    here = PresenceMessage(word, 4, silent=False, multicast=True)
    for sender, datagram in (
        (senders[0], seal.here(here)),
        (senders[1], seal.here(here)),
        (senders[1], seal.here(here._replace(number=3))),
        (senders[1], seal.here(here._replace(node=random_word(), number=9))),
        (senders[1], seal.here(here._replace(number=9))[:-1]),
    ):
        sender.sendto(datagram, manager.address)
    manager.heartbeats.receive()
    assert (peer.shown, peer.address) == (4, ("127.0.0.1", senders[0].getsockname()[1]))
    assert (peer.silent, peer.multicast) == (False, True)
    for sender in senders:
        sender.close()


def test_node_without_heartbeats_stays_connected(local_cluster):
    """One hears none, and its datagrams get lost; to the other they come more rarely than silence is long."""
    rare = local_cluster({"a": "0"}, slice_s=SILENCE_S + 2.0)
    deaf = local_cluster({"a": "0"}, relayed=True)
    rare.start()
    deaf.start()
    deaf.relay.cut(streams=False)
    deaf.wait(lambda: deaf.ask("a", "status")["silent"])
    time.sleep(SILENCE_S + 1.5)
    for site in (rare, deaf):
        assert site.ask("a", "status")["connected"]
        assert "is lost" not in site.log()


STATUS = {"node": "n", "pid": 1, "watchdog": None, "processors": 1, "policy": "gang", "slice_s": 0.1}
STATUS |= {"manager": "a:1", "connected": True, "silent": False, "multicast": False, "slot": None, "slots": 0}
STATUS |= {"scheduled": None, "realtime": False, "processes": []}


def _text(document):
    """The text of a document, lone surrogates included."""
    return json.dumps(document).encode()


def _mutated(draw, document):
    """Return the document with one part, at any depth, left out or replaced."""
    odd = (None, True, -1, 10**30, 1.5, "", "x" * 300, "\ud800", [], {}, [None], {"job": []})
    if isinstance(document, dict) and document and draw.random() < 0.8:
        key = draw.choice(list(document))
        if draw.random() < 0.2:
            return {name: part for name, part in document.items() if name != key}
        return document | {key: _mutated(draw, document[key])}
    if isinstance(document, list) and document and draw.random() < 0.5:
        return [_mutated(draw, document[0]), *document[1:]]
    return draw.choice(odd)


def test_malformed_documents_of_a_key_holder_leave_the_manager(manager):
    draw, own = random.Random(21), node_key(KEY, "n")
    process = {"job": "x", "rank": 0, "ranks": 2, "uid": 1}
    placed = {"x": {"slot": 0, "nodes": ["n", "m"], "processors": {"0": 0}}}
    lines = ({"is": "registered", "process": process}, {"is": "ended", "job": "x", "rank": 0})
    lines += ({"is": "ask", "query": 1}, {"is": "report", "status": STATUS})
    for number in range(300):
        hello = {
            "is": "hello",
            "node": "n",
            "policy": "gang",
            "processors": 1,
            "nonce": random_word(),
            "word": random_word(),
        }
        hello |= {"shown": 0, "placed": placed, "processes": [process]}
        first = _mutated(draw, hello) if number % 3 == 0 else hello
        with socket.create_connection(manager.address) as node:
            challenge = _greeting(manager, node)
            node.sendall(
                Seal(derive(own, "hello", challenge), ours="node", theirs="manager").line(_text(first))
            )
            seal = Seal(derive(own, "stream", challenge, hello["nonce"]), ours="node", theirs="manager")
            for _ in range(3):
                node.sendall(seal.line(_text(_mutated(draw, draw.choice(lines)))))
            _turn(manager)
        _turn(manager)
    assert sum("not legal" in line for line in manager.said) > 200
    assert not any("refused, because of" in line for line in manager.said)


def test_refused_keys_are_few_log_lines_with_the_address(manager):
    for _ in range(20):
        with socket.create_connection(manager.address) as stranger:
            challenge = _greeting(manager, stranger)
            key = derive(node_key(b"another key", "n"), "hello", challenge)
            stranger.sendall(Seal(key, ours="node", theirs="manager").line(_text({"node": "n"})))
            _turn(manager)
    lines = [
        line
        for line in manager.said
        if line.startswith("127.0.0.1: a connection ended before it proved its key")
    ]
    assert len(lines) == 3
    assert "the keys differ" in lines[0]
    assert not any(KEY.decode() in line for line in manager.said)


def _turn(manager):
    """Let the manager handle all that is ready."""
    manager._loop._stopped = False
    manager._loop.after(0.002, manager._loop.stop)
    manager._loop.run()


def _greeting(manager, node):
    node.settimeout(0.01)
    data = b""
    while not data.endswith(b"\n"):
        _turn(manager)
        data += node.recv(4096)
    return json.loads(data)["challenge"]


def _introduced(manager, name, key, *, word=None):
    """Reasons of the log after a node has introduced itself by a name with a key."""
    hello = {"is": "hello", "node": name, "policy": "gang", "processors": 1, "nonce": random_word()}
    hello |= {"word": word or random_word(), "shown": 0, "placed": {}, "processes": []}
    node = socket.create_connection(manager.address)
    challenge = _greeting(manager, node)
    node.sendall(Seal(derive(key, "hello", challenge), ours="node", theirs="manager").line(_text(hello)))
    _turn(manager)
    return node


def test_key_of_a_node_opens_no_other_name(manager):
    own = node_key(KEY, "mine")
    with _introduced(manager, "other", own), _introduced(manager, "mine", KEY):
        assert manager._nodes == {}
        assert "the keys differ" in manager.said[-1]
        with _introduced(manager, "mine", own):
            assert set(manager._nodes) == {"mine"}


def test_second_node_of_a_name_is_few_log_lines(manager):
    with _introduced(manager, "n", node_key(KEY, "n")), _introduced(manager, "m", node_key(KEY, "m")):
        for _ in range(20):
            _introduced(manager, "n", node_key(KEY, "n")).close()
        _introduced(manager, "m", node_key(KEY, "m")).close()
    refused = [line for line in manager.said if "connected already" in line]
    of_n = (
        "127.0.0.1 with the key of node n: a connection ended before it joined: a node n is connected already"
    )
    assert [line.startswith(of_n) for line in refused] == [True] * 3 + [False]


def test_unproved_connections_of_one_address_are_bounded(manager):
    manager._admission._most = 3
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(manager.address)) for _ in range(5)]
        _turn(manager)
        assert len(manager._connections) == 3
        lines = [one.makefile("rb").readline() for one in held]
        assert [b"have not proved a key" in line for line in lines] == [False] * 3 + [True] * 2
        other = socket.create_connection(manager.address, source_address=("127.0.0.2", 0))
        assert _greeting(manager, stack.enter_context(other))
        for one in held:
            one.close()
        _turn(manager)
        with _introduced(manager, "mine", node_key(KEY, "mine")):
            assert set(manager._nodes) == {"mine"}


def test_presence_sealed_by_another_node_is_ignored(manager):
    word = random_word()
    with (
        _introduced(manager, "victim", node_key(KEY, "victim"), word=word),
        socket.socket(type=socket.SOCK_DGRAM) as sender,
    ):
        for name, number in (("rogue", 7), ("victim", 3)):
            seal = DatagramSeal(node_key(KEY, name), manager._admission.session)
            here = PresenceMessage(word, number, silent=False, multicast=False)
            sender.sendto(seal.here(here), manager.address)
        manager.heartbeats.receive()
        assert manager._nodes["victim"].shown == 3


def test_heartbeats_sealed_ahead_keep_to_matrix_and_instant(manager):
    seal = DatagramSeal(KEY, manager._admission.session)
    with socket.socket(type=socket.SOCK_DGRAM) as node:
        node.bind(("127.0.0.1", 0))
        node.settimeout(5.0)
        manager._nodes["a"] = SimpleNamespace(address=node.getsockname(), datagrams=seal, multicast=False)
        manager.heartbeats.start()

        def following(after_s=0.0):
            """The next heartbeat, and seconds from its instant to its arrival."""
            select.select([manager.heartbeats._timer], [], [])
            time.sleep(after_s)
            manager.heartbeats._expired()
            beat = seal.open_beat(node.recv(200))
            return beat, raw() - beat.sent_s

        first, _ = following()
        manager.jobs.version += 1
        second, _ = following()
        assert (second.number, second.version) == (first.number + 1, first.version + 1)
        select.select([manager.heartbeats._timer], [], [])
        time.sleep(0.07)
        manager.heartbeats._expired()
        third, late_s = following()
        assert third.number == second.number + 1
        assert third.sent_s - second.sent_s == pytest.approx(0.2, abs=0.01)
        assert late_s < 0.05
        assert manager.heartbeats.skipped == 1
        del manager._nodes["a"]


def test_word_of_another_node_is_refused(manager):
    word = random_word()
    with _introduced(manager, "victim", node_key(KEY, "victim"), word=word):
        with _introduced(manager, "rogue", node_key(KEY, "rogue"), word=word):
            assert set(manager._nodes) == {"victim"}
            assert "its random word is that of node victim" in manager.said[-1]
        _turn(manager)
        assert manager.heartbeats.words == {word: manager._nodes["victim"]}


def test_enrolled_node_joins_with_its_own_key_only(local_cluster):
    site = local_cluster({"a": "0"})
    site.start_manager()
    keys = site.directory / "a.key"
    keys.touch(0o600)
    keys.write_text(enrolled(site.key, "a")[:-8])
    with pytest.raises(ConfigError, match="is no whole key of a node"):
        read_node_key(keys, "a")
    keys.write_text(enrolled(site.key, "a"))
    with pytest.raises(ConfigError, match="is the key of node a, not of b"):
        read_node_key(keys, "b")
    with pytest.raises(ConfigError, match="expected the manager's"):
        read_manager_key(keys)
    assert read_node_key(keys, "a") == read_node_key(site.key, "a") != read_node_key(site.key, "b")
    site.key = keys
    site.start_nodes()
    site.wait(lambda: site.hears("a"))
