"""Options of `--launcher slurm`: what they may be, and the platform they ask for. Decides nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from apples.cli.exclusions import MOCK, MONITOR, excluded

if TYPE_CHECKING:
    from apples.launching.launcher import Notify
    from apples.model.gridfile import GridFile
    from apples.platforms.platform import Platform
    from apples.platforms.serviceforecasts import ServiceWeather
    from apples.slurm.commands import Wishes

Command = TypeVar("Command", bound=Callable[..., Any])

#: Passed on to Slurm as they are.
_WORDS = ("partition", "account", "qos", "reservation", "constraint")
#: Of the allocation that is made, and of no use inside one.
_OF_ALLOCATIONS = (*_WORDS, "exclusive", "immediate")

_NODES = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)

OPTIONS = (
    click.option("--partition", metavar="NAME", help="Slurm: partition (default: the cluster's)."),
    click.option("--account", metavar="NAME", help="Slurm: account the allocation is charged to."),
    click.option("--qos", metavar="NAME", help="Slurm: quality of service."),
    click.option("--reservation", metavar="NAME", help="Slurm: nodes of this reservation."),
    click.option("--constraint", metavar="LIST", help="Slurm: nodes with these features (a&b, a|b)."),
    click.option("--nodes", metavar="MIN[-MAX]", help="Slurm: plan over so many nodes."),
    click.option("--exclusive", is_flag=True, help="Slurm: nodes are ours alone."),
    click.option(
        "--immediate", metavar="TIME", help="Slurm: give up when the nodes are not ours within TIME."
    ),
)


def with_slurm(command: Command) -> Command:
    """The command with these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def job_around() -> str | None:
    """Number of the allocation we run in, None outside."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or None


def problems(options: Mapping[str, Any]) -> list[str]:
    """Options that nobody would read, or that exclude each other."""
    given = [name for name in (*_OF_ALLOCATIONS, "nodes") if options.get(name)]
    if options["launcher"] != "slurm":
        return [f"--{name} is for --launcher slurm; add it, or leave --{name} out" for name in given]
    reasons = {
        "mock": MOCK,
        "scenario": MOCK,
        "policy": "Slurm shares its nodes itself",
        "monitor": MONITOR,
        "wait": "ranks are told how to wait on this machine only",
        "queue": "Slurm has its own queue",
    }
    found = excluded("--launcher slurm", options, reasons)
    job = job_around()
    if job is not None:
        found += [
            f"--{name} is for an allocation that is to be made, and job {job} (SLURM_JOB_ID) is there already; leave "
            "it out, or unset SLURM_JOB_ID"
            for name in given
            if name in _OF_ALLOCATIONS
        ]
    return found


def read(options: Mapping[str, Any]) -> Wishes:
    """What is asked of Slurm; raises `ConfigError` with every problem."""
    from apples.errors import ConfigError
    from apples.slurm.commands import Wishes
    from nws.base.durations import parse_duration

    wrong: list[str] = []
    nodes, immediate_s = None, None
    if options["nodes"] is not None:
        match = _NODES.fullmatch(options["nodes"].strip())
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            wrong.append(f"--nodes {options['nodes']}: expected MIN or MIN-MAX, for example 2 or 2-4")
        nodes = (least, most)
    if options["immediate"] is not None:
        try:
            immediate_s = parse_duration(options["immediate"], what="--immediate")
        except ConfigError as error:
            wrong += error.problems
    wrong += [f"--{name}: expected a name, got nothing" for name in _WORDS if options[name] == ""]
    if wrong:
        raise ConfigError(wrong)
    words = {name: options[name] for name in _WORDS}
    return Wishes(nodes=nodes, exclusive=options["exclusive"], immediate_s=immediate_s, **words)


def open_slurm(
    options: Mapping[str, Any], service: ServiceWeather | None, notify: Notify
) -> tuple[Platform, GridFile | None]:
    """A Slurm cluster; of its nodes the hosts of the grid file, the service or a list, where the user names any."""
    from apples.cli.assemble import SERVICE_GRID, asked_hosts, choose_hosts, open_grid_file
    from apples.model.grid import Grid, Host
    from apples.platforms.slurm import Given, SlurmPlatform
    from nws.client import state_dir

    file, grid, asked = None, None, asked_hosts(options)
    if options["grid_file"] == SERVICE_GRID and service is not None:
        grid = service.pool(notify)
    elif options["grid_file"] is not None:
        file = open_grid_file(options["grid_file"])
        grid = None if file is None else file.grid
    elif asked:
        hosts = tuple(Host(name=name, slots=slots or 1) for name, slots in asked.items())
        grid = Grid(name="hosts by name", hosts=hosts, source="the hosts named")
    given = Given(
        wishes=read(options),
        grid=None if grid is None else choose_hosts(grid, options),
        open_types=frozenset(asked) if file is None else frozenset(),
        open_slots=frozenset(name for name, slots in asked.items() if slots is None and file is None),
        job=job_around(),
        state=state_dir() / "hosts",
    )
    return SlurmPlatform(given, service=service), file
