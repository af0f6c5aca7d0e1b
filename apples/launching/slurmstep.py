"""Stands where `mpiexec` does when Slurm starts the ranks: has the doors opened, then runs one `srun` to its end.

    python -I -S slurmstep.py NAME HOSTS RUN_DIR SRUN...

Run as a bare script, tied to the launcher. HOSTS is the chain, `alpha:2,beta:1,alpha:1`; each entry gets a door on its
host, asked for as hydra's proxies are (see `rsh.py`). SLURM_HOSTFILE puts rank i on the i-th host of the chain.
"""

from __future__ import annotations

import _socket
import json
import os
import sys

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.launching.kernel import PR_SET_PDEATHSIG, die_like, prctl

HERE = os.path.dirname(os.path.abspath(__file__))
#: Of this launch, and of no use to ranks.
OURS = ("APPLES_RSH", "HYDRA_LAUNCHER_AUTOFORK", "HYDRA_LAUNCHER_EXTRA_ARGS")


def entries(hosts: str) -> list[tuple[str, int]]:
    """The chain as (host, ranks)."""
    pairs = (entry.rpartition(":") for entry in hosts.split(","))
    return [(host, int(count)) for host, _, count in pairs]


def open_door(host: str, command: list[str]) -> _socket.socket:
    """Ask the launcher to have the command started at the host's station; it ends when the answer comes."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect("\0" + os.environ["APPLES_RSH"])
    connection.send(json.dumps({"host": host, "command": command}).encode() + b"\n")
    return connection


def main(arguments: list[str]) -> None:
    """Open the doors, write the host file, run `srun`, end as it did."""
    name, hosts, run_dir, *srun = arguments
    chain = entries(hosts)
    door = [sys.executable, "-I", "-S", os.path.join(HERE, "fdserver.py")]
    try:
        open_ones = [
            open_door(host, [*door, f"{name}-{number}", str(ranks)])
            for number, (host, ranks) in enumerate(chain)
        ]
    except OSError:
        # the launcher is gone
        os._exit(255)
    hostfile = os.path.join(run_dir, "slurm-hosts.txt")
    with open(hostfile, "w", encoding="utf-8") as file:
        file.writelines(f"{host}\n" * ranks for host, ranks in chain)
    environment = {
        key: value
        for key, value in os.environ.items()
        # what an enclosing job left would be taken for our wish
        if key not in OURS and (not key.startswith(("SLURM_", "SRUN_")) or key == "SLURM_CONF")
    }
    environment["SLURM_HOSTFILE"] = hostfile
    ours = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            prctl(PR_SET_PDEATHSIG, 9)
            if os.getppid() == ours:
                os.execve(srun[0], srun, environment)
        finally:
            os._exit(127)
    _, status = os.waitpid(pid, 0)
    os.unlink(hostfile)
    for connection in open_ones:
        connection.close()
    die_like(status)


if __name__ == "__main__":
    main(sys.argv[1:])
