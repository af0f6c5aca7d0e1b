"""Every reason why a run cannot start, before anything is started."""

from __future__ import annotations

import dataclasses
import os
import socket
from pathlib import Path

import pytest

from apples.errors import LaunchError, NotExecutable, ProgramNotFound
from apples.hosts.agentconnection import HostAddress
from apples.launching import mpirun, preflight
from apples.launching.mpirun import HostAccess


def addressed(**addresses: str) -> dict[str, HostAddress]:
    return {host: HostAddress(host=host, address=address) for host, address in addresses.items()}


def test_tiny_run_passes(runs) -> None:
    mpirun.check(runs.request("true"), HostAccess(here=True))


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", socket.gethostname()])
def test_names_of_this_machine(runs, name: str) -> None:
    mpirun.check(runs.request("true", hosts=[name]), HostAccess(here=True))


def test_other_machines_are_named(runs) -> None:
    request = runs.request("true", hosts=["alpha", "localhost", "beta"])
    with pytest.raises(
        LaunchError, match=r"hosts alpha, beta are not this machine.*this machine only"
    ) as caught:
        mpirun.check(request, HostAccess(here=True))
    assert caught.value.exit_code == 125
    mpirun.check(request, HostAccess(addresses=addressed(alpha="localhost", beta="127.0.0.1"), here=True))


def test_address_counts_before_a_name(runs) -> None:
    with pytest.raises(LaunchError, match="hosts localhost are not"):
        mpirun.check(runs.request("true"), HostAccess(addresses=addressed(localhost="10.1.2.3"), here=True))


def test_no_mpiexec_in_the_environment(runs, tmp_path: Path) -> None:
    with pytest.raises(ProgramNotFound, match=r"no mpiexec in .*pip install 'apples-grid\[app\]'") as caught:
        mpirun.check(runs.request("true"), HostAccess(bin_dir=tmp_path, here=True))
    assert caught.value.exit_code == 127
    (tmp_path / "mpiexec").write_text("")
    with pytest.raises(NotExecutable, match="may not be executed"):
        mpirun.check(runs.request("true"), HostAccess(bin_dir=tmp_path, here=True))


def test_program_is_looked_up_before_the_start(runs, tmp_path: Path) -> None:
    def check(request) -> None:
        mpirun.check(request, HostAccess(here=True))

    with pytest.raises(ProgramNotFound, match="'no-such-program' is in none of the directories of PATH"):
        check(runs.request("no-such-program"))
    with pytest.raises(ProgramNotFound, match="does not exist"):
        check(runs.request(str(tmp_path / "gone")))
    with pytest.raises(NotExecutable, match="is a directory") as caught:
        check(runs.request(str(tmp_path)))
    assert caught.value.exit_code == 126
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(NotExecutable, match="may not be executed"):
        check(runs.request(str(script)))
    script.write_bytes(b"#!/bin/sh\r\n")
    script.chmod(0o755)
    with pytest.raises(NotExecutable, match="has Windows line ends"):
        check(runs.request(str(script)))
    with pytest.raises(LaunchError, match="command of the run is empty"):
        check(runs.request())


def test_requests_path_is_searched(runs, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    mpirun.check(runs.request("mine", environment={"PATH": str(tmp_path)}), HostAccess(here=True))


def test_run_directory_that_is_not_there(runs, tmp_path: Path) -> None:
    request = dataclasses.replace(runs.request("true"), run_dir=tmp_path / "nowhere")
    with pytest.raises(LaunchError, match="nowhere does not exist"):
        mpirun.check(request, HostAccess(here=True))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_run_directory_that_may_not_be_written(runs) -> None:
    runs.directory.chmod(0o500)
    with pytest.raises(LaunchError, match="may not be written"):
        mpirun.check(runs.request("true"), HostAccess(here=True))


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_time_limit_must_leave_time(runs, limit: float) -> None:
    with pytest.raises(LaunchError, match="give more than 0 seconds"):
        mpirun.check(runs.request("true", time_limit_s=limit), HostAccess(here=True))


def test_plan_without_ranks(runs) -> None:
    request = runs.request("true")
    empty = dataclasses.replace(request, plan=dataclasses.replace(request.plan, assignments=()))
    with pytest.raises(LaunchError, match="no ranks"):
        mpirun.check(empty, HostAccess(here=True))


def test_shared_memory_must_hold_mpis_segment(tmp_path: Path) -> None:
    preflight.check_shared_memory(2)
    with pytest.raises(LaunchError, match=r"1000000000 ranks need .* MiB, without which they die of SIGBUS"):
        preflight.check_shared_memory(1_000_000_000)
    with pytest.raises(LaunchError, match=r"cannot be used \(No such file or directory\)"):
        preflight.check_shared_memory(2, tmp_path / "shm")
