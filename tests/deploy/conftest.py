"""Hosts that a fake ssh reaches: all of them are this machine, each with a prefix of its own."""

import shutil
import socket
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).resolve().parents[1] / "apples" / "hosts" / "fake_ssh.sh"


@pytest.fixture
def over_ssh(tmp_path, monkeypatch, program_signals):
    """Return a function that calls a command with HOSTS and options of a deployment; its exit code."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed; it makes the certificate")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "ssh").symlink_to(FAKE)
    monkeypatch.setenv("PATH", f"{programs}:{Path('/usr/bin')}:{Path('/bin')}")
    monkeypatch.setenv("APPLES_STATE", str(tmp_path / "desk"))
    where = ["--prefix", str(tmp_path / "{host}"), "--python", sys.executable]
    where += ["--installed", sys.prefix, "--no-systemd"]

    def call(main, *words):
        with pytest.raises(SystemExit) as ended:
            main(["deploy", *words, *where])
        return ended.value.code

    return call


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])
