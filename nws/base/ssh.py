"""The command that runs a program on another machine, and the meanings of its failures. Runs nothing.

It is the user's own `ssh`, with its configuration, agent, jump hosts and known keys. It never prompts: a password or an
unknown host key is a failure at once. A destination is `host` or `user@host`.
"""

import os
import shlex
import shutil
from collections.abc import Sequence

from nws.base.errors import SshNotFound

#: Seconds until a machine has to answer the first packet, and between signs of life once it has.
CONNECT_S, ALIVE_S, ALIVE_COUNT = 5, 5, 3

#: ssh itself failed; any other code is that of the command there.
FAILED = 255

_OPTIONS = (
    # no terminal, no X11, and no agent: root of a host that is probed could use our keys
    *("-T", "-x", "-a"),
    *("-o", "BatchMode=yes"),
    *("-o", f"ConnectTimeout={CONNECT_S}"),
    *("-o", f"ServerAliveInterval={ALIVE_S}", "-o", f"ServerAliveCountMax={ALIVE_COUNT}"),
    # A new master in the background would keep the pipes open. An existing one is used.
    *("-o", "ControlMaster=no"),
    *("-o", "ClearAllForwardings=yes"),
)

#: ssh's output in lower case → meaning and remedy; the first match counts.
_MEANINGS = (
    (
        "remote host identification has changed",
        "has another host key than the one that is known; if it was installed anew, forget the old one with "
        "ssh-keygen -R {address}, connect once by hand and accept it",
    ),
    (
        "host key verification failed",
        "has a host key that is not known here; connect once by hand (ssh {address}) and accept it",
    ),
    (
        "could not resolve hostname",
        "has a name that does not resolve here; correct it, or give an address in the grid file",
    ),
    (
        "permission denied",
        "refuses our key; put the public key there (ssh-copy-id {address}) or load it into the agent (ssh-add)",
    ),
    (
        "too many authentication failures",
        "refuses us after too many keys; name one for it with IdentityFile in ~/.ssh/config",
    ),
    (
        "connection refused",
        "takes no ssh connections; start sshd there, or correct the port in ~/.ssh/config",
    ),
    ("timed out", "does not answer; it is off, or cut off by the network or a firewall"),
    ("no route to host", "cannot be reached; it is off, or not on this network"),
    ("network is unreachable", "cannot be reached; this machine has no way to its network"),
    ("connection closed", "hung up before the login; ask its sshd's log why"),
    ("connection reset", "hung up before the login; ask its sshd's log why"),
    ("kex_exchange_identification", "hung up before the login; ask its sshd's log why"),
    ("bad configuration option", "cannot be called: {last}; correct ~/.ssh/config"),
)


def find_ssh() -> str:
    """Return the path of `ssh`; raises `SshNotFound`."""
    found = shutil.which("ssh")
    if found is None:
        raise SshNotFound(
            "ssh is in none of the directories of PATH, and other hosts are reached with it; install it "
            "(Debian: openssh-client)"
        )
    return found


def ssh_command(ssh: str, address: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command` at `address` without prompts."""
    return [ssh, *_OPTIONS, "--", address, shlex.join(command)]


def meaning(address: str, code: int, stderr: str, program: str) -> str:
    """Return why `program` could not be run at `address`, a sentence without its subject.

    Args:
        code: exit code of ssh
        stderr: its output
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if code == FAILED:
        text = stderr.lower()
        for mark, what in _MEANINGS:
            if mark in text:
                return what.format(address=address, last=last)
        return f"cannot be reached: ssh ended with code {code}" + (f": {last}" if last else "")
    if code == 127 and os.sep not in program:
        return f"has no {program}; install Python 3.8 or later there"
    if code == 127:
        return (
            f"has no {program}; install the same environment at the same path there, or use a file system that "
            "every host sees"
        )
    if code == 126:
        return f"may not execute {program}; correct its permissions there"
    return f"broke off with code {code}" + (f": {last}" if last else "")
