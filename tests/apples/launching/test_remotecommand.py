"""The command of a run over several hosts, and what of the environment goes along."""

import sys

import pytest

from apples.hosts.agentconnection import HostAddress
from apples.launching import mpirun
from apples.launching.command import (
    RANK_WRAPPER,
    Rendezvous,
    carried,
    groups_of,
    hostfile,
    launch_environment,
    network_environment,
    spread_command,
)
from apples.launching.mpis import Family, Mpi


def test_rank_i_stands_on_the_host_of_the_plan(runs):
    request = runs.request("true", hosts=["alpha", "alpha", "beta", "alpha"])
    assert groups_of(request) == [("alpha", 2), ("beta", 1), ("alpha", 1)]
    assert hostfile(request) == "alpha:2\nbeta:1\nalpha:1\n"


def test_whole_command(runs):
    request = runs.request("prog", "--size", "4", hosts=["alpha", "beta"], label=True)
    spread = Rendezvous(launcher="10.0.0.1", directory="/home/me")
    mpi = Mpi(family=Family.MPICH, mpiexec="/venv/bin/mpiexec")
    command = spread_command(request, mpi, "/bin/prog", spread)
    assert command[:13] == [
        *("/venv/bin/mpiexec", "-rmk", "user", "-launcher", "rsh", "-launcher-exec", sys.executable),
        *("-f", f"{runs.directory}/hosts.txt", "-localhost", "10.0.0.1", "-wdir", "/home/me"),
    ]
    assert command[13:17] == ["-n", "2", "/bin/sh", "-c"]
    # of this machine; agents of others name their own
    assert command[18:20] == [sys.executable, str(RANK_WRAPPER)]
    assert command[-7:] == [
        str(runs.directory),
        "alpha:1,beta:1",
        "--label",
        "--",
        "/bin/prog",
        "--size",
        "4",
    ]


def test_what_belongs_to_one_machine_stays_there():
    ours = {"HOME": "/root", "SSH_AUTH_SOCK": "x", "PMI_RANK": "0", "BASH_FUNC_f%%": "() {", "DISPLAY": ":0"}
    assert carried({**ours, "PATH": "/bin", "APPLES_STATE": "/s", "LANG": "C"}) == [
        "APPLES_STATE",
        "LANG",
        "PATH",
    ]


def test_environment_of_mpiexec(runs):
    request = runs.request("true", environment={"A": "request"})
    base = {"A": "user", "OMP_NUM_THREADS": "4", "HYDRA_LAUNCHER": "slurm", "PMI_FD": "3", "HOME": "/home/me"}
    environment = launch_environment(request, base, "door", {"A": "default", "B": "default"})
    assert environment["B"] == "default"
    assert environment["A"] == "request"
    assert environment["OMP_NUM_THREADS"] == "4"
    assert environment["NUMBA_NUM_THREADS"] == "1"
    assert environment["APPLES_RSH"] == "door"
    assert not {"HYDRA_LAUNCHER", "PMI_FD", "HOME"} & environment.keys()


def test_interface_is_passed_unless_the_user_has_chosen():
    names = {"UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include"}
    assert network_environment("ens3", {}) == dict.fromkeys(names, "ens3")
    assert network_environment("ens3", {"UCX_NET_DEVICES": "ib0"}).keys() == names - {"UCX_NET_DEVICES"}
    assert network_environment(None, {}) == {}


@pytest.mark.parametrize(("program", "network"), [("/bin/true", True), (sys.executable, False)])
@pytest.mark.usefixtures("fake_ssh")
def test_network_module_is_set_for_users_programs(runs, monkeypatch, capfd, program, network):
    monkeypatch.delenv("MPIR_CVAR_CH4_NETMOD", raising=False)
    monkeypatch.setenv("HOME", "/there")
    if not network:
        shown = "import os; os.write(1, b'%s %d\\n' % (os.environ.get('MPIR_CVAR_CH4_NETMOD', '-').encode(), "
        shown += "any('RSH' in name or 'HYDRA' in name for name in os.environ)))"
        words = (program, "-c", shown)
    else:
        words = ("/bin/sh", "-c", 'echo "$MPIR_CVAR_CH4_NETMOD $(env | grep -c "RSH\\|HYDRA")"')
    addresses = {host: HostAddress(host=host, address=host) for host in ("alpha", "beta")}
    outcome = mpirun.run(
        runs.request(*words, hosts=["alpha", "beta"]), mpirun.HostAccess(addresses=addresses), print
    )
    assert outcome.finished, outcome.message
    assert capfd.readouterr().out == f"{'ofi' if network else '-'} 0\n" * 2
