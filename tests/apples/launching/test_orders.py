"""Frames between launcher and host agent that neither of them sends."""

from __future__ import annotations

import json
import os
import socket
from types import SimpleNamespace

import msgspec
import pytest

from apples.hosts.agentconnection import ForkedAgent
from apples.hosts.frames import Unframer, frame
from apples.hosts.hostmessages import RankRecord, RunSetup, StartOrder, encoded
from apples.hosts.orders import SETUP, START, IllegalOrder, read_file, read_order, read_signal, read_slabs
from apples.launching.runprocesses import RunProcesses
from tests.transcripts import recorded

LEGAL = {"run_dir": ".", "token": "t", "directory": ".", "proxies": 1, "watched": None, "environment": {}}
LEGAL |= {"look_s": 0.2, "beat_s": None, "silence_s": None}


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Runs a forked agent on these bytes; its frames by kind, its exit code and its stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").touch()

    def run(data: bytes) -> tuple[dict[bytes, bytes], int, str]:
        log = tmp_path / "log"
        ours, theirs = socket.socketpair()
        with theirs, log.open("wb") as stderr:
            agent = ForkedAgent(theirs.fileno(), theirs.fileno(), stderr.fileno(), None)
        with ours:
            ours.settimeout(20)
            ours.sendall(data)
            received = b"".join(iter(lambda: ours.recv(65536), b""))
        return dict(Unframer(preamble=True).feed(received)), agent.wait(20.0), log.read_text()

    return run


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (frame(b"S", b"{}"), "an order: id is not legal"),
        (frame(b"S", b"\xff"), "an order: not JSON"),
        (frame(b"S", b"[" * 100_000), "an order: not JSON"),
        (frame(b"K", b"9" * 5000), "an order: not the number of a signal"),
        (frame(b"F", b"../../x\nbytes"), "an order: not the name of a file"),
        (frame(b"D", b"\xff"), "an order: not heights of slabs"),
    ],
)
def test_agent_illegal_order_ends_with_reason(serve, order, why):
    frames, code, stderr = serve(frame(b"J", json.dumps(LEGAL).encode()) + order)
    assert frames[b"W"].decode() == why
    assert b"G" in frames
    assert (code, stderr) == (0, "")


@pytest.mark.parametrize(
    "data",
    [
        frame(b"J"),
        frame(b"J", b"{}"),
        frame(b"J", b"null"),
        frame(b"J", json.dumps(LEGAL | {"environment": {"A": 1}}).encode()),
        frame(b"X"),
        b"J\xff\xff\xff\xff",
    ],
)
def test_agent_illegal_setup_is_refused(serve, data):
    frames, code, stderr = serve(data)
    assert frames[b"W"].startswith(b"the launcher's setup: ")
    assert (code, stderr) == (0, "")


def test_orders_legal_ones_are_read():
    assert read_order(json.dumps(LEGAL).encode(), SETUP) == LEGAL
    odd = os.fsdecode(b"/\xff")
    order = {"id": -1, "command": ["sh", odd], "helper": True, "environment": None}
    assert read_order(json.dumps(order).encode(), START) == order
    assert read_signal(b"15") == 15
    assert read_file(b"links.json\n{}") == ("links.json", b"{}")
    assert read_slabs(b"3,4") == "3,4"
    with pytest.raises(IllegalOrder):
        read_order(json.dumps(LEGAL | {"run_dir": "a\0b"}).encode(), SETUP)


@recorded("apples/launching/illegal_frames.txt", "kind", "payload")
def test_launcher_illegal_frame_loses_the_host(tmp_path, answered, kind, payload):
    lost: list[str] = []
    agent = SimpleNamespace(
        receive=lambda: [(kind, payload)], over=False, report=SimpleNamespace(shared=True), lose=lost.append
    )
    run = SimpleNamespace(
        _agents=SimpleNamespace(with_fd=lambda fd: agent), _run_dir=tmp_path, _answer=lambda *ended: None
    )
    RunProcesses._take_frames(run, 0, {})
    answered(lost[0])
    assert list(tmp_path.iterdir()) == []


def test_status_with_a_value_of_another_type_is_refused():
    text = b'{"rank": 0, "host": "a", "pid": 1, "keeper": 2, "started": 1.0, "signal": "KILL"}'
    with pytest.raises(ValueError, match=r"`\$.signal`"):
        msgspec.json.decode(text, type=RankRecord)


def test_setup_of_the_launcher_is_legal():
    setup = RunSetup(**LEGAL)
    assert read_order(encoded(setup), SETUP) == LEGAL
    odd = StartOrder(id=-1, command=["sh", os.fsdecode(b"/\xff")])
    assert read_order(encoded(odd), START)["command"] == odd.command
