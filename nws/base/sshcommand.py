"""The command that runs a program on another machine, and the meanings of its failures. Runs nothing.

It is the user's own `ssh`, with its configuration, agent, jump hosts and known keys. It never prompts: a password or an
unknown host key is a failure at once. A destination is `host` or `user@host`.
"""

import os
import re
import shlex
import shutil
from collections.abc import Sequence

from nws.base.errors import SshNotFound
from nws.base.terminal import visible

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
    # of the user's configuration: ssh refuses a command beside it, and prints no reason of a failure or too much
    *("-o", "RemoteCommand=none", "-o", "LogLevel=INFO"),
)

#: A line of ssh about an accepted key, which explains no failure.
_ADDED = "Warning: Permanently added "

#: Beginnings of lines of a connection that fails: from here, or from a jump host.
_CONNECT = r"(?:ssh: )?(?:connect to (?:host|address) .*|channel \d+: open failed: connect failed): "

#: A line that ssh itself prints → meaning and remedy; the first match counts. Banners and login shells print other
#: lines, which may hold the same words.
_MEANINGS = (
    (
        r"@?\s*WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
        "has another host key than the one that is known; if it was installed anew, forget the old one with "
        "ssh-keygen -R {address}, connect once by hand and accept it",
    ),
    (
        r"Host key verification failed\.",
        "has a host key that is not known here; connect once by hand (ssh {address}) and accept it",
    ),
    (
        r"ssh: Could not resolve hostname|" + _CONNECT + "(?:Name or service|Temporary failure in name)",
        "has a name that does not resolve here; correct it, or give an address in the grid file",
    ),
    (
        r"(?:Received disconnect|Disconnected) from .*: Too many authentication failures",
        "refuses us after too many keys; name one for it with IdentityFile in ~/.ssh/config",
    ),
    (
        r"(?:\S+@\S+: )?Permission denied \(",
        "refuses our key; put the public key there (ssh-copy-id {address}) or load it into the agent (ssh-add)",
    ),
    (
        _CONNECT + "Connection refused",
        "takes no ssh connections; start sshd there, or correct the port in ~/.ssh/config",
    ),
    (
        _CONNECT + r".*timed out|Connection timed out|Timeout, server .* not responding",
        "does not answer; it is off, or cut off by the network or a firewall",
    ),
    (_CONNECT + "No route to host", "cannot be reached; it is off, or not on this network"),
    (_CONNECT + "Network is unreachable", "cannot be reached; this machine has no way to its network"),
    (
        r"Unable to negotiate with ",
        "and this machine's ssh have no algorithm in common: {line}; allow one for it in ~/.ssh/config",
    ),
    (
        r"(?:kex|ssh)_exchange_identification: |Connection (?:closed|reset) by |Connection to .* closed by remote",
        "hung up before the login; ask its sshd's log why",
    ),
    (
        r".*: (?:line \d+: )?Bad configuration option|Bad owner or permissions on ",
        "cannot be called: {line}; correct ~/.ssh/config",
    ),
)


def find_ssh() -> str:
    """Return the path of `ssh`; raises `SshNotFound`."""
    path = shutil.which("ssh")
    if path is None:
        raise SshNotFound(
            "ssh is in none of the directories of PATH, and other hosts are reached with it; install it "
            "(Debian: openssh-client)"
        )
    return path


def ssh_command(ssh: str, address: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command` at `address` without prompts."""
    return [ssh, *_OPTIONS, "--", address, shlex.join(command)]


def meaning(address: str, code: int, stderr: str, program: str, noise: str = "") -> str:
    """Return why `program` could not be run at `address`, a sentence without its subject.

    Args:
        code: exit code of ssh
        stderr: its output
        noise: what the login shell printed on stdout
    """
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith(_ADDED)]
    last = visible((lines or noise.strip().split("\n"))[-1])
    if code == FAILED:
        for pattern, what in _MEANINGS:
            for line in filter(re.compile(pattern).match, lines):
                return what.format(address=address, line=visible(line))
        return f"cannot be reached: ssh ended with code {code}" + (f": {last}" if last else "")
    # The login shell may end with the same codes, because of a command in its rc file.
    named = not last or os.path.basename(program) in last
    if code == 127 and named:
        where = "Python 3.8 or later" if os.sep not in program else "the same environment at the same path"
        return f"has no {program}; install {where} there"
    if code == 126 and named:
        return f"may not execute {program}; correct its permissions there"
    return f"broke off with code {code}" + (f": {last}" if last else "")
