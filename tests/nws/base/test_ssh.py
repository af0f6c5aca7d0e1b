"""How ssh is called, and what its failures mean to the user."""

import pytest

from nws.base.errors import SshNotFound
from nws.base.ssh import find_ssh, meaning, ssh_command


def test_ssh_command_never_prompts_and_quotes_words():
    command = ssh_command("/usr/bin/ssh", "me@alpha", ["python", "-c", "print('a b')"])
    assert command[0] == "/usr/bin/ssh"
    for option in ("BatchMode=yes", "ConnectTimeout=5", "ControlMaster=no"):
        assert command[command.index(option) - 1] == "-o"
    assert command[-3:] == ["--", "me@alpha", "python -c 'print('\"'\"'a b'\"'\"')'"]


def test_ssh_command_forwards_nothing():
    # the agent of a user is not for the hosts that are called
    options = ssh_command("ssh", "alpha", ["true"])[1:]
    assert {"-a", "-x", "-T", "ClearAllForwardings=yes"} <= set(options[: options.index("--")])


def test_without_ssh_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshNotFound, match=r"ssh is in none of the directories of PATH.*openssh-client"):
        find_ssh()


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (
            255,
            "me@alpha: Permission denied (publickey).",
            "refuses our key; put the public key there (ssh-copy-id",
        ),
        (255, "Host key verification failed.", "has a host key that is not known here; connect once by hand"),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "has another host key than the one that is known",
        ),
        (
            255,
            "ssh: Could not resolve hostname alpha: Name or service not known",
            "has a name that does not resolve",
        ),
        (
            255,
            "ssh: connect to host alpha port 22: Connection refused",
            "takes no ssh connections; start sshd there",
        ),
        (
            255,
            "ssh: connect to host alpha port 22: Connection timed out",
            "does not answer; it is off, or cut off",
        ),
        (255, "ssh: connect to host alpha port 22: No route to host", "cannot be reached; it is off"),
        (255, "kex_exchange_identification: read: reset", "hung up before the login"),
        (255, "ssh: something new", "cannot be reached: ssh ended with code 255: ssh: something new"),
        (255, "", "cannot be reached: ssh ended with code 255"),
        (
            127,
            "bash: /venv/bin/python: No such file",
            "has no /venv/bin/python; install the same environment",
        ),
        (126, "bash: Permission denied", "may not execute /venv/bin/python; correct its permissions there"),
        (1, "MemoryError", "broke off with code 1: MemoryError"),
    ],
)
def test_what_failures_mean(code, said, expected):
    assert meaning("alpha", code, said, "/venv/bin/python").startswith(expected)
