"""The machine manager while nodes come and go, all at once and half way through."""

import json
import signal
import socket
import struct

from apples.daemons.keyfile import read_key
from apples.daemons.lab import kill
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
