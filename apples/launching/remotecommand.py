"""Builds the command and the environment of a run over several hosts; runs nothing.

`mpiexec` is told the hosts in rank order and a remote shell of ours (`rsh.py`), which hands commands to the sTATIONS:
so one connection to each host carries all there is, and the host's own ssh settings hold. What belongs to a
user's session on one machine (home, display, agent) is not carried over to another.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from apples.launching.command import BARE, FOREIGN, ONE_THREAD, RANK_WRAPPER, chain_of_hosts
from apples.launching.launcher import LaunchRequest

RSH = Path(__file__).with_name("rsh.py")

#: Variables that mean something on one machine only, or are the remote shell's and hydra's business.
OWN = frozenset(
    {
        *(
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "HOSTNAME",
            "MAIL",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "TERM",
            "TMPDIR",
        ),
        *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "LS_COLORS", "APPLES_RSH"),
    }
)
OWN_PREFIXES = ("SSH_", "XDG_", "DBUS_", "HYDRA_", *FOREIGN)

#: What hydra can carry: it separates names by commas.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """What is known once all sTATIONS are there.

    launcher : numeric address of this machine that every host can reach.  directory : where ranks start
    """

    launcher: str
    directory: str


def groups_of(request: LaunchRequest) -> list[tuple[str, int]]:
    """Hosts in rank order with the ranks that follow each other there; a host may come again."""
    ranks = sorted(request.plan.assignments, key=lambda a: a.rank)
    return [(host, len(list(same))) for host, same in groupby(a.host for a in ranks)]


def hostfile(request: LaunchRequest) -> str:
    """Hydra's host file: rank i stands on the host of the plan."""
    return "".join(f"{host}:{ranks}\n" for host, ranks in groups_of(request))


def carried(environment: Mapping[str, str]) -> list[str]:
    """Names of the variables that go to every rank, sorted."""
    return sorted(
        name
        for name in environment
        if _PLAIN.fullmatch(name) and name not in OWN and not name.startswith(OWN_PREFIXES)
    )


def launch_environment(request: LaunchRequest, base: Mapping[str, str], socket: str) -> dict[str, str]:
    """Environment of `mpiexec`, most of it for the ranks: the user's, ours below it, the request's on top."""
    kept = {name: value for name, value in base.items() if not name.startswith((*FOREIGN, "HYDRA_"))}
    return {
        **ONE_THREAD,
        **kept,
        **request.environment,
        "APPLES_RSH": socket,
        # Our own machine is a host like any other: it has a station too.
        "HYDRA_LAUNCHER_AUTOFORK": "0",
        "HYDRA_LAUNCHER_EXTRA_ARGS": " ".join([*BARE, str(RSH)]),
    }


def rank_environment(interface: str | None, base: Mapping[str, str]) -> dict[str, str]:
    """Variables for the ranks of one host: the interface that MPI is to use, where the user has not chosen."""
    if interface is None:
        return {}
    ours = {"UCX_NET_DEVICES": interface, "FI_TCP_IFACE": interface}
    return {name: value for name, value in ours.items() if name not in base}


def spread_command(
    request: LaunchRequest, mpiexec: str, program: str, spread: Rendezvous, names: list[str]
) -> list[str]:
    """Full command line of the run; names : variables that are carried."""
    label = ["--label"] if request.label else []
    run_dir = request.run_dir.absolute()
    return [
        # Hydra's name for a remote shell to which it adds no options of ssh's.
        *(mpiexec, "-launcher", "rsh", "-launcher-exec", sys.executable, "-rmk", "user"),
        *("-f", str(hosts_path(run_dir)), "-localhost", spread.launcher, "-wdir", spread.directory),
        *("-genvlist", ",".join(names), "-n", str(len(request.plan.assignments))),
        *(sys.executable, *BARE, str(RANK_WRAPPER), str(run_dir), chain_of_hosts(request)),
        *label,
        *("--", program, *request.command[1:]),
    ]


def hosts_path(run_dir: Path) -> Path:
    """Where the host file of a run is written."""
    return run_dir / "hosts.txt"
