"""The machine manager while nodes come and go, all at once and half way through."""

import json
import signal
import socket
import struct
import time

from apples.daemons.keyfile import read_key
from apples.daemons.lab import kill
from apples.daemons.link import SILENCE_S
from apples.daemons.wire import Seal, derive, random_word


def test_nodes_that_leave_all_at_once_leave_the_manager_standing(lab):
    site = lab(dict.fromkeys("abcde", "0"))
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


def test_a_node_that_has_gone_before_it_is_welcomed_is_not_there(lab):
    site = lab()
    site.start()
    host, _, port = site.place.rpartition(":")
    key = read_key(site.key)
    with socket.create_connection((host, int(port))) as stranger:
        greeting = json.loads(stranger.makefile("rb").readline())
        seal = Seal(derive(key, "hello", greeting["challenge"]), ours="node", theirs="manager")
        hello = {"node": "ghost", "policy": "gang", "processors": 1, "nonce": random_word()}
        hello |= {"word": random_word(), "placed": {}, "processes": []}
        site.manager.send_signal(signal.SIGSTOP)
        stranger.sendall(seal.line(hello))
        # what was sent can be read still, but nothing be sent back
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    site.manager.send_signal(signal.SIGCONT)
    site.wait(lambda: "node ghost is lost" in site.said())
    site.wait(lambda: set(site.view()["nodes"]) == {"a"})
    assert "node ghost has joined" not in site.said()


def test_who_asks_is_told_how_all_nodes_are_now(lab):
    site = lab({"a": "0", "b": "0"})
    site.start()
    site.spin("x", 0, 1, "b")
    site.wait(lambda: site.view()["jobs"]["x"]["state"] == "in")
    first, asked = site.ask("a", "view"), time.monotonic()
    time.sleep(0.5)
    second, passed = site.ask("a", "view"), time.monotonic() - asked
    (before,), (after,) = (view["nodes"]["b"]["processes"] for view in (first, second))
    # What was told in the last fifth of a second counts as now.
    assert after["here_s"] - before["here_s"] >= passed - 0.25


def test_a_node_that_hangs_does_not_keep_people_waiting(lab):
    site = lab({"a": "0", "b": "0"})
    site.start()
    site.wait(lambda: "processes" in site.ask("a", "view")["nodes"]["b"])
    site.nodes["b"].send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    begun = time.monotonic()
    view = site.ask("a", "view")
    took_s = time.monotonic() - begun
    site.nodes["b"].send_signal(signal.SIGCONT)
    assert 0.25 < took_s < 1.0
    # What it told before stands, and for how long.
    assert view["nodes"]["b"]["told_s"] > 0.5
    assert view["nodes"]["b"]["policy"] == "gang"


def test_a_node_that_hears_no_beats_and_whose_datagrams_get_lost_stays_connected(lab):
    site = lab({"a": "0"}, relayed=True)
    site.start()
    site.relay.cut(streams=False)
    site.wait(lambda: site.ask("a", "status")["silent"])
    time.sleep(SILENCE_S + 1.5)
    assert site.ask("a", "status")["connected"]
    assert "is lost" not in site.said()


def test_beats_that_are_rarer_than_silence_is_long_leave_nodes_connected(lab):
    site = lab({"a": "0"}, slice_s=SILENCE_S + 2.0)
    site.start()
    time.sleep(SILENCE_S + 1.5)
    assert site.ask("a", "status")["connected"]
    assert "is lost" not in site.said()
