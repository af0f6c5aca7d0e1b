"""Hosts of the allocation around this process, as its batch system lists them in a file. Decides nothing.

PBS, LSF, Grid Engine, OAR and the MPI Operator of Kubernetes give a job the path of such a file in a variable. Slurm
has a platform of its own (`apples.slurm.platform`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from apples.errors import ConfigError
from nws.base.hostlist import HostSlots, parse_entry, read_hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystem:
    """A batch system. variable : holds the path of the hostfile

    columns : a line is `host slots queue processors`, as Grid Engine writes it; else a hostfile of `mpirun`, in which a
        host has one line for each slot
    """

    name: str
    variable: str
    columns: bool = False


BATCH_SYSTEMS = (
    BatchSystem(name="PBS", variable="PBS_NODEFILE"),
    BatchSystem(name="LSF", variable="LSB_DJOB_HOSTFILE"),
    BatchSystem(name="Grid Engine", variable="PE_HOSTFILE", columns=True),
    BatchSystem(name="OAR", variable="OAR_NODEFILE"),
    # The MPI Operator sets the variable of the MPI that the job names.
    BatchSystem(name="the MPI Operator", variable="OMPI_MCA_orte_default_hostfile"),
    BatchSystem(name="the MPI Operator", variable="PRTE_MCA_prte_default_hostfile"),
    BatchSystem(name="the MPI Operator", variable="HYDRA_HOST_FILE"),
    BatchSystem(name="the MPI Operator", variable="I_MPI_HYDRA_HOST_FILE"),
)


def allocated_hosts(environment: Mapping[str, str]) -> tuple[str, tuple[HostSlots, ...]] | None:
    """Return the batch system's name and its hosts with their slots; None outside an allocation.

    Raises `ConfigError` with every problem of its file as `file:line: …`.
    """
    for system in BATCH_SYSTEMS:
        path = environment.get(system.variable)
        if path:
            try:
                hosts = read_hosts(Path(path), _grid_engine_entry if system.columns else parse_entry)
            except ConfigError as error:
                raise ConfigError(
                    f"{problem} ({system.variable} of {system.name})" for problem in error.problems
                ) from error
            return system.name, tuple(replace(h, slots=h.slots or 1) for h in hosts)
    return None


def _grid_engine_entry(line: str, problems: list[str]) -> list[HostSlots]:
    words = line.split()
    return parse_entry(" slots=".join(words[:2]), problems)
