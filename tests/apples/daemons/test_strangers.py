"""What anybody on the host may send, and whoever has taken the manager's port: answered or shown out, never fatal."""

import json
import os
import socket
import struct
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from apples.daemons.ipc.eventloop import Loop
from apples.daemons.managerconnection import ManagerConnection
from apples.daemons.nodemessages import VERSION
from apples.monitoring.pagelayout import MAGIC, MANAGED, PAGE_BYTES, VERSION as PAGE_VERSION

LONE = "\ud800"
CHALLENGE = {"is": "challenge", "apples": VERSION, "challenge": "0" * 32, "session": "0" * 32}

#: Lines as JSON; what the answer has to say.
HOSTILE = [
    (
        {"register": {"job": "j", "rank": 0, "ranks": 1, "pid": 99999999999}},
        "pid 99999999999: expected `int` <= 4194304",
    ),
    ({"register": {"job": "j", "rank": 0, "ranks": 1, "pid": 1 << 4000}}, "expected `int` <= 4194304"),
    ({"register": {"job": "j", "rank": 10**30, "ranks": 10**31}}, "<= 4194304"),
    ({"register": {"job": LONE, "rank": 0, "ranks": 1}}, "expected one JSON object"),
    ({"register": {"job": "j", "rank": 0, "ranks": 1, "page": "a\0b"}}, "a path without NUL"),
    ({"register": {"job": "j", "rank": 0, "ranks": 1, "page": LONE}}, "expected one JSON object"),
    ({"register": {"job": "j", "rank": 0, "ranks": 1, "page": "/" + "x" * 3000}}, "name too long"),
    ({"register": {"job": "j", "rank": 0, "ranks": 1, "page": "/dev/null"}}, "not a page"),
    ({"register": [1]}, "register [1]: expected `object`, got `array`"),
    ({LONE: LONE}, "expected one JSON object"),
    ({"dance": 1}, "is no request"),
    ({}, "with one request"),
]


def said(path, *lines):
    """Answers of a node manager to lines over one connection."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        answers = client.makefile("rb")
        found = []
        for line in lines:
            client.sendall(json.dumps(line).encode() + b"\n")
            found.append(json.loads(answers.readline()))
        return found


def test_no_request_ends_a_node_manager(shared_cluster):
    site = shared_cluster("uncoordinated")
    for line, why in HOSTILE:
        (answer,) = said(site.socket("a"), line)
        assert why.lower() in answer["refused"].lower()
    (odd,) = said(site.socket("a"), {"job": "no-such"})
    assert odd == {"job": []}
    assert site.ask("a", "status")["processes"] == []
    assert site.nodes["a"].poll() is None


def page(state=1, stopped_ns=0, magic=MAGIC):
    """A monitor's page of this process, as its owner could write it."""
    about = struct.pack("=QIIIIIII", magic, PAGE_VERSION, 0, state, os.getpid(), os.getpid(), 0, 1)
    managed = struct.pack("=IIQQ", 0, 0, 0, stopped_ns)
    return (about.ljust(MANAGED, b"\0") + managed).ljust(PAGE_BYTES, b"\0")


@pytest.mark.parametrize(
    "spoilt",
    [page(state=7), page(stopped_ns=2**64 - 1), page(magic=1), b"", b"\xff" * PAGE_BYTES],
    ids=["state", "stopped", "magic", "short", "ones"],
)
def test_no_damaged_page_ends_a_node_manager(shared_cluster, tmp_path, spoilt):
    site = shared_cluster("message-driven")
    path = tmp_path / "j.0"
    path.write_bytes(page())
    affinity = os.sched_getaffinity(0)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(site.socket("a")))
        about = {"job": "j", "rank": 0, "ranks": 1, "pid": os.getpid(), "page": str(path)}
        try:
            client.sendall(json.dumps({"register": about}).encode() + b"\n")
            assert "registered" in json.loads(client.makefile("rb").readline())
            with path.open("r+b") as file:
                file.truncate(len(spoilt))
                file.write(spoilt)
            assert len(site.ask("a", "status")["processes"]) == 1
        finally:
            client.close()
            os.sched_setaffinity(0, affinity)
    site.wait(lambda: site.ask("a", "status")["processes"] == [])
    assert site.nodes["a"].poll() is None


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        ({"is": "challenge", "apples": VERSION}, "required field `challenge`"),
        (CHALLENGE | {"session": "zz"}, "`$.session`"),
        (CHALLENGE | {"session": "00"}, "`$.session`"),
        (CHALLENGE | {"challenge": LONE * 32}, "a line that is not legal"),
        (CHALLENGE | {"challenge": 7, "session": None}, "`$.challenge`"),
        (CHALLENGE | {"apples": {}}, f"its protocol is {{}}, ours {VERSION}"),
        (CHALLENGE | {"is": "pulse"}, "unknown field"),
        ({"refused": LONE}, "a line that is not legal"),
        ({"refused": "no room"}, "no room"),
        ([], "Expected `object`"),
    ],
)
def test_who_has_taken_the_managers_port_cannot_end_a_node(greeting, why):
    reasons, loop = [], Loop()

    def lost(reason):
        reasons.append(reason)
        loop.stop()

    def greet(listener):
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(json.dumps(greeting).encode() + b"\n")
                connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        nothing = lambda *what: None  # noqa: E731
        hooks = SimpleNamespace(
            hello=lambda *words: None, welcome=nothing, line=nothing, heartbeat=nothing, lost=lost
        )
        link = ManagerConnection(loop, listener.getsockname(), b"k" * 32, hooks)
        link.start()
        loop.run()
        link.close()
        loop.close()
        thread.join()
    assert why in reasons[0]
