"""`apples probe` and `apples-run --launcher ssh` as users call them, behind an ssh that stays on this machine."""

import json
import os
import signal
from pathlib import Path

import pytest

FAKE = Path(__file__).parent.parent / "hosts" / "fake_ssh.sh"


@pytest.fixture
def over_ssh(run, tmp_path):
    """Runs a command with the fake ssh on its PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ssh").symlink_to(FAKE)

    def make(program, *arguments, **more):
        return run(program, *arguments, PATH=f"{directory}{os.pathsep}{os.environ['PATH']}", **more)

    return make


def test_hosts_are_checked_and_the_kernel_is_run(over_ssh):
    command = over_ssh("apples", "probe", "alpha,beta", "locked", "--json", "--limit", "60s")
    assert command.code == 1, command.err
    document = json.loads(command.out)
    assert [(h["host"], h["fit"]) for h in document["hosts"]] == [
        ("alpha", True),
        ("beta", True),
        ("locked", False),
    ]
    alpha, _, locked = document["hosts"]
    assert locked["problems"][0].startswith("refuses our key")
    assert locked["facts"] is None
    assert 0 < alpha["kernel"]["seconds_per_cell"] < 1e-3
    assert alpha["verdict"]["speed"] > 0
    # no address of theirs is known: this ssh goes through no network
    assert document["links"] == []


def test_table_names_what_is_wrong(over_ssh):
    command = over_ssh("apples", "probe", "alpha", "stranger", "--no-speed", "--limit", "60s")
    assert command.code == 1, command.err
    lines = command.out.splitlines()
    assert lines[0].split() == [
        "host",
        "CPUs",
        "share",
        "memory",
        "a",
        "cell",
        "speed",
        "latency",
        "bandwidth",
    ]
    assert lines[1].startswith("alpha ")
    assert (
        "stranger: cannot take part: it has a host key that is not known here; connect once by hand"
        in command.out
    )
    assert "checking 2 hosts" in command.err


def test_no_host_is_fit(over_ssh):
    command = over_ssh("apples", "probe", "off", "--limit", "60s")
    assert (command.code, command.out) == (
        3,
        "off: cannot take part: it cannot be reached; it is off, or not on this network\n",
    )


def test_interrupt_waits_for_no_host(start, tmp_path):
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "ssh").symlink_to(FAKE)
    command = start(
        "apples", "probe", "mute", "--limit", "1h", PATH=f"{directory}{os.pathsep}{os.environ['PATH']}"
    )
    command.wait_for("checking 1 host")
    command.wait_for_rank("sleep")
    os.kill(command.process.pid, signal.SIGINT)
    assert (command.end(), command.err.splitlines()[-1]) == (130, "apples: interrupted")
    assert command.survivors() == []


def test_hosts_of_a_file_and_of_a_grid(over_ssh, tmp_path):
    hostfile, grid = tmp_path / "hosts", tmp_path / "grid.yaml"
    hostfile.write_text("off\nlocked slots=2\n")
    grid.write_text("name: lab\nhosts: [{name: a, address: 'off'}, {name: b, address: locked}]\n")
    command = over_ssh("apples", "probe", "--hosts", hostfile, "--json", "--limit", "60s")
    assert [h["host"] for h in json.loads(command.out)["hosts"]] == ["off", "locked"]
    command = over_ssh("apples", "probe", "--grid", grid, "b", "--json", "--limit", "60s")
    (only,) = json.loads(command.out)["hosts"]
    assert (only["host"], only["address"]) == ("b", "locked")


HEAT = ("12", "--app", "heat", "-s", "nx=16", "-s", "ny=16", "-s", "iterations=5")


def test_run_over_the_hosts_that_are_fit(over_ssh):
    command = over_ssh(
        "apples-run", *HEAT, "--launcher", "ssh", "-H", "alpha:1,beta:1,locked", "-n", "2", "--json"
    )
    assert command.code == 0, command.err
    document = json.loads(command.out)
    assert sorted(h["host"] for h in document["hosts"]) == ["alpha", "beta"]
    assert sum(h["rows"] for h in document["hosts"]) == 12
    assert document["ended"] == "finished"
    (locked,) = (entry for entry in document["left_out"] if entry["host"] == "locked")
    assert locked["reason"].startswith("it refuses our key")
    assert "without locked: it refuses our key" in command.err
    assert document["snapshot"]["source"] == "looks at each host over ssh"
    assert command.survivors() == []


def test_nobody_is_left_for_a_run(over_ssh):
    command = over_ssh("apples-run", *HEAT, "--launcher", "ssh", "-H", "locked,off")
    assert command.code == 3
    assert command.err.splitlines()[-3:] == [
        "apples-run: no host of the pool can take part:",
        "apples-run: locked: it refuses our key; put the public key there (ssh-copy-id locked) or load it into the "
        "agent (ssh-add)",
        "apples-run: off: it cannot be reached; it is off, or not on this network",
    ]


def test_checkpoint_that_not_every_host_would_see(over_ssh, tmp_path):
    path = tmp_path / "nowhere" / "run.chk"
    command = over_ssh("apples-run", *HEAT, "--launcher", "ssh", "-H", "alpha", "-s", f"checkpoint={path}")
    assert command.code == 3
    assert f"alpha: it has no directory {path.parent}, where {path} is written" in command.err
