"""What would be executed, with what environment; no process is started here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import apples
from apples.hosts.statusfile import host_of
from apples.launching.command import (
    BARE,
    chain_of_hosts,
    mpiexec_command,
    rank_environment,
    with_parent_death,
)
from apples.launching.mpis import Family, Mpi

OWN = Mpi(family=Family.MPICH, mpiexec="/env/bin/mpiexec")


def test_rank_starts_through_the_rank_wrapper(runs) -> None:
    request = runs.request("app", "--size", "64", hosts=["alpha", "alpha", "beta"])
    command = mpiexec_command(request, OWN, "/opt/app")
    assert " ".join(command[:9]) == "/env/bin/mpiexec -launcher fork -rmk user -hosts localhost -n 3"
    assert command[9] == sys.executable
    assert command[12].endswith("hosts/rankwrapper.py")
    assert command[13:] == [str(runs.directory), "alpha:2,beta:1", "--", "/opt/app", "--size", "64"]


def test_labels_are_an_option_of_the_rank_wrapper(runs) -> None:
    command = mpiexec_command(runs.request("app", label=True), OWN, "/opt/app")
    assert command[-3:] == ["--label", "--", "/opt/app"]
    assert "--label" not in mpiexec_command(runs.request("app"), OWN, "/opt/app")


def test_parent_death_wrapper_comes_first() -> None:
    command = with_parent_death(["/env/bin/mpiexec", "-n", "2"], 4711)
    assert command[3].endswith("hostagent.py")
    assert command[4:] == ["exec", "4711", "/env/bin/mpiexec", "-n", "2"]


@pytest.mark.parametrize("hosts", [["a"], ["a", "b", "a"], ["a", "a", "b", "b", "b"]])
def test_rank_wrapper_reads_the_chain_of_hosts(runs, hosts: list[str]) -> None:
    written = chain_of_hosts(runs.request("app", hosts=hosts))
    assert [host_of(rank, written) for rank in range(len(hosts))] == hosts
    assert host_of(len(hosts), written) == ""


def test_one_thread_per_rank_unless_somebody_says_otherwise(runs) -> None:
    request = runs.request("app", environment={"NUMBA_NUM_THREADS": "3"})
    environment = rank_environment(request, {"OMP_NUM_THREADS": "2"})
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["NUMBA_NUM_THREADS"] == "3"
    alone = rank_environment(runs.request("app"), {})
    assert (alone["OMP_NUM_THREADS"], alone["NUMBA_NUM_THREADS"]) == ("1", "1")


def test_enclosing_mpiexec_is_forgotten(runs) -> None:
    base = {"PMI_FD": "7", "PMI_RANK": "1", "HYDI_CONTROL_FD": "5", "MPI_LOCALNRANKS": "2", "HOME": "/root"}
    environment = rank_environment(runs.request("app"), base)
    assert environment["HOME"] == "/root"
    assert not any(name.startswith(("PMI_", "HYDI_", "MPI_")) for name in environment)


def test_rank_wrapper_imports_no_slow_module() -> None:
    # Every rank pays for these imports: typing alone takes 10 ms.
    tree = str(Path(apples.__file__).parent.parent)
    program = f"import sys; sys.path.append({tree!r}); import apples.hosts.rankwrapper; print(*sys.modules)"
    command = [sys.executable, *BARE, "-c", program]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "apples.hosts.ranksupervisor" in modules
    assert not {"typing", "re", "json", "contextlib", "dataclasses", "socket", "subprocess"} & set(modules)
