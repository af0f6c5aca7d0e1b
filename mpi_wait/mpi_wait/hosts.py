"""Other hosts that a command of an MPI launcher or a batch system names."""

from __future__ import annotations

import contextlib
import shutil
import socket
from typing import Iterator, Mapping, Sequence

_LISTS = {"-host", "--host", "-hosts", "--hosts", "-H"}
_FILES = {
    "-f",
    "-hostfile",
    "--hostfile",
    "-machinefile",
    "--machinefile",
    "-default-hostfile",
    "--default-hostfile",
}
#: Variables of batch systems with a number of hosts, a list, and a file of them.
_COUNTS = ("SLURM_JOB_NUM_NODES", "PBS_NUM_NODES", "OMPI_MCA_orte_num_nodes")
_LISTED = ("LSB_HOSTS",)
_FILED = ("PBS_NODEFILE", "PE_HOSTFILE", "OAR_NODEFILE", "HYDRA_HOST_FILE")


def other_hosts(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the hosts other than this one that the ranks may be started on, as far as options and variables tell."""
    names = {socket.gethostname(), socket.gethostname().partition(".")[0], "localhost"}
    named = dict.fromkeys(_named(command, environment))
    hosts = [host for host in named if host not in names and not host.startswith("127.")]
    for variable in _COUNTS:
        count = environment.get(variable, "")
        if not hosts and count.isdigit() and int(count) > 1:
            hosts.append(f"{variable}={count}")
    return hosts


def _named(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    files = [environment[variable] for variable in _FILED if variable in environment]
    for option, value in _options(command):
        if option in _LISTS:
            yield from (host.partition(":")[0] for host in value.split(","))
        elif option in _FILES:
            files.append(value)
    for variable in _LISTED:
        yield from environment.get(variable, "").split()
    for path in files:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            words = (line.partition("#")[0].split() for line in file)
            yield from (line[0].partition(":")[0] for line in words if line)


def _options(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a launcher with the words that follow them; the options of the program are not its own."""
    for option, word in zip(command, command[1:]):
        if option.startswith("-"):
            yield option, word
        if shutil.which(word) is not None or not (option.startswith("-") or word.startswith("-")):
            return
