"""A real Slurm on the hosts of a testbed: munge on each, a controller on the first, node daemons on the others.

Configuration, logs and the key lie in the testbed's directory, everything else in each host's own /run; so it goes when
the testbed goes. Clients on every host find it as they would anywhere, in /etc/slurm.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .batchsystem import BatchSystem
from .grid import Testbed
from .host import HERE
from .limits import version

#: What is called, and the Debian package that brings it.
NEEDED = {
    "/usr/sbin/slurmctld": "slurmctld",
    "/usr/sbin/slurmd": "slurmd",
    "/usr/sbin/munged": "munge",
    "srun": "slurm-client",
}

#: Seconds that all nodes may take to be idle.
UP_S = 60.0

#: Settings of the controller that do not depend on the hosts.
SETTINGS = Path(__file__).with_name("slurm.conf").read_text().replace("HERE", HERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host as Slurm knows it; it may be given more CPUs than it has.  memory_mb : RealMemory"""

    name: str
    cpus: int = 2
    memory_mb: int = 1000
    features: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Nodes under one name; `settings` as slurm.conf writes them."""

    name: str
    nodes: tuple[str, ...]
    settings: str = ""


def missing() -> str:
    """Why no Slurm can be made here besides what a testbed needs; empty when one can."""
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            return f"Slurm on a testbed needs {program}, of the Debian package {package}"
    if not Path("/etc/slurm").is_dir():
        return "Slurm on a testbed needs the directory /etc/slurm, of the Debian package slurm-client"
    return ""


class Slurm(BatchSystem):
    """A cluster on a testbed that is up; it ends with the testbed. Its server has the controller."""

    name = "slurm"
    pause_s = 0.1

    def __init__(
        self, testbed: Testbed, server: str, nodes: Sequence[Node], partitions: Sequence[Partition]
    ) -> None:
        super().__init__(testbed, server, [node.name for node in nodes])
        self._nodes, self._partitions = tuple(nodes), tuple(partitions)

    def up(self) -> None:
        """Bring it up and wait until all nodes are idle; raises `TestbedError`."""
        self.directory.mkdir(mode=0o755)
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (self.directory / "slurm.conf").write_text(self.configuration())
        (self.directory / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v{version()}\n")
        # By default the PMIx plugin of each node makes the same directory in /tmp, which the hosts share.
        (self.directory / "mpi.conf").write_text("PMIxCliTmpDirBase=/run\n")
        self.start(self.server)
        self._daemon(self.server, "slurmctld -f /etc/slurm/slurm.conf")
        for node in self.nodes:
            self.start(node)
        self.wait_until_idle()

    def start(self, host: str) -> None:
        """The daemons of a host that is on: munge and, on a node, slurmd; again after it was off."""
        lines = [
            f"mount --bind {HERE}/slurm /etc/slurm",
            "mkdir -p -m 755 /run/munge /run/slurmctld /run/slurmd",
            f"/usr/sbin/munged --force --key-file={HERE}/slurm/munge.key --seed-file=/run/munge/seed "
            "--log-file=/run/munge/log --pid-file=/run/munge/pid --socket=/run/munge/munge.socket.2",
        ]
        self.script(host, "\n".join(lines))
        if host in self.nodes:
            self._daemon(host, f"slurmd -f /etc/slurm/slurm.conf -N {host}")

    def wait_until_idle(self) -> None:
        """Until every node is idle; raises `TestbedError`."""
        self.until(lambda: set(self.states().values()) == {"idle"}, "nodes are not all idle", UP_S)

    def states(self) -> dict[str, str]:
        """Node → its state, in words of sinfo."""
        said = self.called("sinfo", "-h", "-N", "-o", "%N %T").stdout
        return dict(line.split(None, 1) for line in said.splitlines())

    def jobs(self) -> list[str]:
        """What squeue shows: number, state, nodes."""
        return self.called("squeue", "-h", "-a", "-o", "%i %T %N").stdout.splitlines()

    def control(self, *words: str) -> str:
        """What scontrol says; raises `TestbedError` where it refuses."""
        return self.asked("scontrol", *words)

    def configuration(self) -> str:
        """slurm.conf."""
        address = {host.name: host.address for host in self.testbed.spec.hosts}
        lines = [*SETTINGS.splitlines(), f"SlurmctldHost={self.server}({address[self.server]})"]
        for node in self._nodes:
            features = f" Features={node.features}" if node.features else ""
            lines.append(
                f"NodeName={node.name} NodeAddr={address[node.name]} CPUs={node.cpus} "
                f"RealMemory={node.memory_mb} State=UNKNOWN{features}"
            )
        for partition in self._partitions:
            nodes = ",".join(partition.nodes)
            lines.append(f"PartitionName={partition.name} Nodes={nodes} State=UP {partition.settings}")
        return "\n".join(lines) + "\n"

    def _daemon(self, host: str, command: str) -> None:
        self.script(host, f"/usr/sbin/{command} </dev/null >{HERE}/slurm/start-{host}.log 2>&1")
