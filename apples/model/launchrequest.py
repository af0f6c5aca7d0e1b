"""The seam between planning and running: the request of a run.

`apples.launching.mpirun` starts real ranks on this machine or over ssh, `apples.slurm.launching` through Slurm;
`apples.simulation.mock_launcher` executes the run in simulated time. Callers do not see the difference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apples.model.plan import Plan
from apples.model.progress import AdaptationController, DepartureController
from apples.model.template import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiChoice:
    """The user's choice of an MPI.

    which : a family (mpich, openmpi, intelmpi) or the path of an `mpiexec`; None to find it from the program
    arguments : further arguments of that `mpiexec`, or of `srun`
    """

    which: str | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One run to be started.

    command : program and arguments of every rank.  run_dir : existing directory for statuses and records
    environment : variables for the ranks, in addition to the user's
    directory : where the ranks start, None for the launcher's own directory
    label : prefix every line of output with its rank
    time_limit_s : wall seconds after which the run is ended (exit code 124)
    checkpoint_every : iterations between checkpoints, None for none; real ranks get it in their command
    cpus : CPUs to which the ranks of a host are bound, by host; hosts without an entry have unbound ranks
    program_output_to_stderr : keep stdout free for one JSON document
    mpi : the MPI that starts the ranks
    output : file for all output of the ranks instead, None for none
    controller : receives the progress of the run and may move its slabs or end it; None for a run without adaptation
    departures : lets the run leave hosts; None for a run that stays on its hosts
    on_progress : receives each line of progress of the run (`apples.model.progress`)
    progress_pattern : regular expression whose group is the iteration that a line of the program's output reports
    """

    plan: Plan
    workload: Workload
    command: tuple[str, ...]
    run_dir: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    label: bool = False
    time_limit_s: float | None = None
    program_output_to_stderr: bool = False
    checkpoint_every: int | None = None
    controller: AdaptationController | None = None
    departures: DepartureController | None = None
    on_progress: Callable[[bytes], None] | None = None
    progress_pattern: str | None = None
    directory: Path | None = None
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    output: Path | None = None
    mpi: MpiChoice = field(default_factory=MpiChoice)


Notify = Callable[[str], None]
"""Receives one line for the user's eyes (never for parsing)."""
