"""How ssh is called, and what its failures mean to the user."""

import pytest

from nws.base.errors import SshNotFound
from nws.base.sentprogram import BOOTSTRAP, interpreter
from nws.base.sshcommand import find_ssh, meaning, ssh_command
from tests.transcripts import recorded


def test_ssh_command_never_prompts_and_quotes_words():
    command = ssh_command("/usr/bin/ssh", "me@alpha", ["python", "-c", "print('a b')"])
    assert command[0] == "/usr/bin/ssh"
    for option in ("BatchMode=yes", "ConnectTimeout=5", "ControlMaster=no"):
        assert command[command.index(option) - 1] == "-o"
    assert command[-3:] == ["--", "me@alpha", "python -c 'print('\"'\"'a b'\"'\"')'"]


def test_ssh_command_forwards_nothing():
    # the agent of a user is not for the hosts that are called
    options = ssh_command("ssh", "alpha", ["true"])[1:]
    assert not {"!", "\n"} & set(ssh_command("ssh", "alpha", interpreter("-c", BOOTSTRAP))[-1])  # for csh
    assert {"-a", "-x", "-T", "ClearAllForwardings=yes"} <= set(options[: options.index("--")])


def test_without_ssh_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshNotFound, match=r"ssh is in none of the directories of PATH.*openssh-client"):
        find_ssh()


@recorded("nws/base/ssh_failures.txt", "code", "said")
def test_what_failures_mean(answered, code, said):
    answered(meaning("alpha", code, said, "/venv/bin/python"))
