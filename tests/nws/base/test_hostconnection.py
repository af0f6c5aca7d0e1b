"""Connections to programs on hosts: limits of time and size, also while an order is sent."""

import pytest

from nws.base import hostconnection
from nws.base.hostconnection import HostCheckError, HostConnection

ECHO = b"""
import sys
line = sys.stdin.buffer.readline()
print("APPLES-CHECK 1 {}", flush=True)
for line in sys.stdin.buffer:
    print('APPLES-CHECK 1 {"bytes": %d}' % len(line), flush=True)
"""


def test_connection_sends_an_order_longer_than_a_pipe():
    with HostConnection(None, {}, program=ECHO) as host:
        assert host.receive(20.0) == {}
        assert host.ask({"wheel": "x" * (1 << 21)}, 20.0) == {"bytes": (1 << 21) + 14}


def test_connection_refuses_a_line_without_end(monkeypatch):
    monkeypatch.setattr(hostconnection, "_LONGEST_LINE", 1 << 18)
    host = HostConnection(None, {}, ("sh", "-c", "exec cat /dev/zero"), program=ECHO)
    with host, pytest.raises(HostCheckError, match="sent a line of more than"):
        host.receive(20.0)


def test_program_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    monkeypatch.chdir(tmp_path)
    with HostConnection(None, {}, program=b"import json\n" + ECHO) as host:
        assert host.receive(20.0) == {}


@pytest.mark.parametrize("noise", ["Welcome> ", "\\033]0;lab\\007", "a\\nb", "APPLES-", "APPLES-CHECK 2 \\n"])
def test_connection_noise_before_an_answer_is_skipped(noise):
    host = HostConnection(None, {}, ("sh", "-c", f"printf '{noise}'; exec \"$@\"", "sh"), program=ECHO)
    with host:
        assert host.receive(20.0) == {}


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
def test_connection_shell_that_waits_is_quoted(shell, limit_s, message):
    host = HostConnection(None, {}, ("sh", "-c", shell, "sh"), program=ECHO)
    with host, pytest.raises(HostCheckError, match=message):
        host.ask({"wheel": "x" * (1 << 21)}, limit_s)
