"""A fake ssh on PATH, and real hosts where they can be made."""

import os
import sys
from pathlib import Path

import pytest

# The testbed is a package of its own beside the tests of the three packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testbed.fixtures import lab

__all__ = ["lab"]

FAKE = Path(__file__).with_name("fake_ssh.sh")


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    """`ssh` that runs commands on this machine, whatever the host; some names fail as real hosts do."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ssh").symlink_to(FAKE)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory / "ssh"
