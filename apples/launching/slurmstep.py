"""Takes the place of `mpiexec` when Slurm starts the ranks: starts the file-descriptor servers, then runs one `srun`.

    hostagent.py step NAME HOSTS RUN_DIR SRUN...

HOSTS is the chain, `alpha:2,beta:1,alpha:1`. Each entry gets a file-descriptor server on its host, ordered as hydra
orders its proxies (`apples.launching.remoteshell`). SLURM_HOSTFILE puts rank i on the i-th host of the chain.
"""

from __future__ import annotations

import os
import sys

from apples.launching import hostagent
from apples.launching.kernel import PR_SET_PDEATHSIG, die_like, prctl
from apples.launching.remoteshell import order

#: Variables of this launch that the ranks do not get.
INTERNAL = ("APPLES_RSH", "HYDRA_LAUNCHER_AUTOFORK", "HYDRA_LAUNCHER_EXTRA_ARGS")


def entries(hosts: str) -> list[tuple[str, int]]:
    """Return the chain as (host, ranks)."""
    pairs = (entry.rpartition(":") for entry in hosts.split(","))
    return [(host, int(count)) for host, _, count in pairs]


def main(arguments: list[str]) -> int:
    """Start the servers, write the host file, run `srun`, end as it did. Does not return."""
    name, hosts, run_dir, *srun = arguments[1:]
    chain = entries(hosts)
    server = [sys.executable, "-I", "-S", os.path.abspath(hostagent.__file__), "fds"]
    try:
        servers = [
            order(host, [*server, f"{name}-{number}", str(ranks)])
            for number, (host, ranks) in enumerate(chain)
        ]
    except OSError:
        # The launcher is gone.
        os._exit(255)
    hostfile = os.path.join(run_dir, "slurm-hosts.txt")
    with open(hostfile, "w", encoding="utf-8") as file:
        file.writelines(f"{host}\n" * ranks for host, ranks in chain)
    environment = {
        key: value
        for key, value in os.environ.items()
        # Slurm would take variables of an enclosing job for options.
        if key not in INTERNAL and (not key.startswith(("SLURM_", "SRUN_")) or key == "SLURM_CONF")
    }
    environment["SLURM_HOSTFILE"] = hostfile
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            prctl(PR_SET_PDEATHSIG, 9)
            if os.getppid() == parent:
                os.execve(srun[0], srun, environment)
        finally:
            os._exit(127)
    _, status = os.waitpid(pid, 0)
    os.unlink(hostfile)
    for connection in servers:
        connection.close()
    die_like(status)
