"""Connections to programs on hosts: limits of time and size, also while an order is sent."""

import pytest

from apples.hosts import frames
from apples.hosts.conversation import AgentConversation
from apples.hosts.frames import PREAMBLE, ToAgent
from apples.hosts.hostmessages import HostCheckError

#: Answers each frame with its length.
ECHO = b"""
import struct, sys
sys.stdout.buffer.write(%r)
while head := sys.stdin.buffer.read(5):
    length = struct.unpack(">cI", head)[1]
    answer = b"%%d" %% len(sys.stdin.buffer.read(length))
    sys.stdout.buffer.write(struct.pack(">cI", b"A", len(answer)) + answer)
    sys.stdout.buffer.flush()
""" % (PREAMBLE)
OPENING = (ToAgent.QUESTION, b"")


def test_conversation_sends_an_order_longer_than_a_pipe():
    with AgentConversation(None, OPENING, program=ECHO) as host:
        assert host.answer(20.0) == b"0"
        host.send(bytes(1 << 21))
        assert host.answer(20.0) == b"%d" % (1 << 21)


def test_conversation_refuses_a_greeting_without_end(monkeypatch):
    monkeypatch.setattr(frames, "LONGEST_GREETING", 1 << 18)
    host = AgentConversation(None, OPENING, ("sh", "-c", "exec cat /dev/zero"), program=ECHO)
    with host, pytest.raises(HostCheckError, match="does not answer as a host agent does"):
        host.answer(20.0)


def test_program_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    with AgentConversation(None, OPENING, program=b"import json\n" + ECHO) as host:
        assert host.answer(20.0) == b"0"


@pytest.mark.parametrize(
    "noise", ["Welcome> ", "\\033]0;lab\\007", "a\\nb", "APPLES ", "APPLES HOST AGENT 2\\n"]
)
def test_conversation_noise_before_an_answer_is_skipped(noise):
    host = AgentConversation(
        None, OPENING, ("sh", "-c", f"printf '{noise}'; exec \"$@\"", "sh"), program=ECHO
    )
    with host:
        assert host.answer(20.0) == b"0"


@pytest.mark.parametrize(
    ("shell", "limit_s", "message"),
    [
        (
            r"printf 'Motto\nChoose\033> '; exec sleep 60",
            0.3,
            r"printed 'Choose\\x1b>' and may wait for input",
        ),
        ("exec sleep 60", 0.1, r"did not answer within 0.1 s"),
        ('read answer; exec "$@"', 20.0, "its login shell reads standard input"),
    ],
)
def test_conversation_shell_that_waits_is_quoted(shell, limit_s, message):
    host = AgentConversation(None, OPENING, ("sh", "-c", shell, "sh"), program=ECHO)
    host.send(bytes(1 << 21))
    with host, pytest.raises(HostCheckError, match=message):
        host.answer(limit_s)
