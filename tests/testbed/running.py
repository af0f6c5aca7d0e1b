"""Commands run for a testbed; what they complain of becomes a `TestbedError`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from . import limits
from .errors import TestbedError

#: What is called, and the Debian package that brings it.
NEEDED = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
}


def missing() -> str:
    """Why no testbed can be made here; empty when one can. Touches nothing."""
    if os.geteuid() != 0:
        return "a testbed needs root (network namespaces, control groups)"
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            return f"a testbed needs {program}, of the Debian package {package}"
    if limits.version() == 0:
        return "a testbed needs control groups for cpu, cpuset, memory and freezing"
    made = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False)
    if made.returncode != 0:
        return f"namespaces cannot be made here: {made.stderr.decode(errors='replace').strip()}"
    if not os.path.exists("/dev/net/tun"):
        return "a testbed needs /dev/net/tun for links with a delay"
    return ""


def run(command: Sequence[str], *, given: str = "", check: bool = True) -> str:
    """What the command prints; raises `TestbedError` where it fails and `check`."""
    result = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    if check and result.returncode != 0:
        raise TestbedError(f"{shlex.join(command)} failed: {result.stderr.strip()} {given.strip()}")
    return result.stdout


def within(pid: int, *command: str) -> list[str]:
    """The command in the network namespace of a process."""
    return ["nsenter", "-t", str(pid), "-n", *command]
