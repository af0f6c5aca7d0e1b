"""The pool of an `apples-run` call: hosts of a grid file, a list or the weather service, and their platform."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from apples.cli.conflicts import job_around
from apples.cli.optiongroups import Problems
from apples.cli.runoptions import SERVICE_GRID, PoolOptions, WeatherOptions
from apples.errors import ConfigError
from apples.launching.preflight import names_of_this_machine
from apples.livequeue.hosts import HOSTS_VARIABLE
from apples.model.grid import Grid, Host
from apples.platforms.local import LocalPlatform
from apples.platforms.platform import Platform, is_this_machine, this_machine
from nws.base.durations import parse_duration
from nws.base.errors import UsageError
from nws.client import Endpoint, state_dir

if TYPE_CHECKING:
    from apples.launching.launcher import Notify
    from apples.model.gridfile import GridFile
    from apples.model.snapshots import TimeShares
    from apples.platforms.serviceforecasts import ServiceWeather
    from apples.slurm.commands import Wishes

#: Source of a grid that no file describes.
BUILT_IN = "built in"

#: Scenario, load and seed of the mock grid by default.
DEFAULT_SCENARIO, DEFAULT_LOAD, DEFAULT_SEED = "centurion", "loaded", 1

_NODES = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def ignore(text: str) -> None:
    """Discard a message."""


def open_service(options: WeatherOptions) -> ServiceWeather | None:
    """Return the weather service of the options, not yet contacted; None if they name none."""
    from apples.platforms.serviceforecasts import STALE_AFTER_S, ServiceWeather

    if not options.nws:
        return None
    stale_after_s = STALE_AFTER_S
    if options.nws_stale_after is not None:
        stale_after_s = parse_duration(options.nws_stale_after, what="--nws-stale-after")
    token_file, ca = (Path(path) if path else None for path in (options.nws_token_file, options.nws_ca))
    try:
        endpoint = Endpoint.of(options.nws, token_file=token_file, ca=ca)
    except UsageError as error:
        raise ConfigError(f"--nws: {error}") from error
    return ServiceWeather(endpoint, stale_after_s=stale_after_s)


def open_platform(
    options: PoolOptions,
    service: ServiceWeather | None = None,
    notify: Notify = ignore,
    turns: TimeShares | None = None,
) -> tuple[Platform, GridFile | None]:
    """Return the platform that the options select, and its grid file if there is one; raise `ConfigError`."""
    if options.simulated:
        return _open_mock(options)
    # A job of the queue keeps to the hosts that the queue gave it, unless it names others.
    given = os.environ.get(HOSTS_VARIABLE)
    if given and options.hosts is None and options.hostfile is None:
        options = replace(options, hosts=given)
    of_service = options.grid_file == SERVICE_GRID and service is not None
    file = None if of_service else open_grid_file(options.grid_file)
    grid = None if file is None else file.grid
    if service is not None and of_service:
        grid = service.pool(notify)
    if options.launcher == "slurm":
        return _open_slurm(options, service, grid, fixed=file is not None), file
    if options.launcher == "ssh" and grid is None and not of_service:
        return _open_listed(options, service), file
    pool = choose_hosts(grid or this_machine(), options)
    if options.launcher == "ssh":
        from apples.platforms.ssh import SshPlatform

        return SshPlatform(pool, service=service), file
    return LocalPlatform(pool, service=service, turns=turns), file


def _listed_grid(asked: Mapping[str, int | None]) -> Grid:
    """Return a grid of hosts that only a list names; their number of slots is 1 until they report it."""
    hosts = tuple(Host(name=name, slots=slots or 1) for name, slots in asked.items())
    return Grid(name="hosts by name", hosts=hosts, source="the hosts named")


def _open_listed(options: PoolOptions, service: ServiceWeather | None) -> Platform:
    """Return hosts over ssh that only a list names; they report their slots and types themselves."""
    from apples.platforms.ssh import SshPlatform

    asked = asked_hosts(options)
    pool = choose_hosts(_listed_grid(asked), options)
    open_slots = frozenset(name for name, slots in asked.items() if slots is None)
    return SshPlatform(pool, open_slots=open_slots, open_types=frozenset(asked), service=service)


def _open_slurm(
    options: PoolOptions, service: ServiceWeather | None, grid: Grid | None, *, fixed: bool
) -> Platform:
    """Return a Slurm cluster, restricted to the hosts of the grid or of a list if there is one.

    fixed : a grid file states the slots and CPU types
    """
    from apples.platforms.slurm import Given, SlurmPlatform

    asked = asked_hosts(options)
    if grid is None and asked:
        grid = _listed_grid(asked)
    given = Given(
        wishes=slurm_request(options),
        grid=None if grid is None else choose_hosts(grid, options),
        open_types=frozenset() if fixed else frozenset(asked),
        open_slots=frozenset(name for name, slots in asked.items() if slots is None and not fixed),
        job=job_around(),
        state=state_dir() / "hosts",
    )
    return SlurmPlatform(given, service=service)


def slurm_request(options: PoolOptions) -> Wishes:
    """Return the allocation to request from Slurm; raise `ConfigError` with every problem."""
    from apples.slurm.commands import Wishes

    problems = Problems()
    nodes, immediate = None, options.immediate
    if options.nodes is not None:
        match = _NODES.fullmatch(options.nodes.strip())
        least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= least <= most:
            problems.append(f"--nodes {options.nodes}: expected MIN or MIN-MAX, for example 2 or 2-4")
        nodes = (least, most)
    immediate_s = None
    if immediate is not None:
        immediate_s = problems.collect(lambda: parse_duration(immediate, what="--immediate"))
    names = {
        name: getattr(options, name) for name in ("partition", "account", "qos", "reservation", "constraint")
    }
    problems += [f"--{name}: expected a name, got nothing" for name, value in names.items() if value == ""]
    problems.check()
    return Wishes(nodes=nodes, exclusive=options.exclusive, immediate_s=immediate_s, **names)


def _open_mock(options: PoolOptions) -> tuple[Platform, GridFile]:
    """Return a mock grid on the hosts of the grid file, or of the file that its scenario names."""
    from apples.platforms.mock import open_mock
    from apples.simulation.scenario import load_scenario

    name, file = options.scenario, open_grid_file(options.grid_file)
    if file is None:
        name = name or DEFAULT_SCENARIO
        file = open_grid_file(load_scenario(name)[0].grid)
        assert file is not None
    grid = choose_hosts(file.grid, options)
    seed = DEFAULT_SEED if options.seed is None else options.seed
    return open_mock(name, seed=seed, load=options.load or DEFAULT_LOAD, grid=grid), file


def open_grid_file(name: str | None) -> GridFile | None:
    """Return the grid file of that name or path, None for None; raise `ConfigError`."""
    from apples.model.config import find_config
    from apples.model.gridfile import load_grid_file

    return None if name is None else load_grid_file(find_config(name))


def choose_hosts(grid: Grid, options: PoolOptions) -> Grid:
    """Return the pool: hosts of -H or --hostfile, else all of the grid, after --include and --exclude."""
    if not any((options.hosts, options.hostfile, options.include, options.exclude)):
        return grid
    from apples.model.hostlist import expand

    asked = asked_hosts(options)
    if asked:
        grid = _named_hosts(grid, asked)
    for flag, hosts, keep in (("include", options.include, True), ("exclude", options.exclude, False)):
        if hosts is None:
            continue
        names = set(expand(hosts))
        unknown = sorted(names - {h.name for h in grid.hosts})
        if unknown:
            legal = ", ".join(h.name for h in grid.hosts)
            raise ConfigError(f"--{flag} {hosts}: no host {', '.join(unknown)} in the pool ({legal})")
        grid = grid.restrict(h.name for h in grid.hosts if (h.name in names) == keep)
    if not grid.hosts:
        raise ConfigError("the pool is empty: --include and --exclude leave no host")
    return grid


def asked_hosts(options: PoolOptions) -> dict[str, int | None]:
    """Return the hosts of -H and --hostfile with their slots; None for hosts without a number of slots."""
    from apples.model.hostlist import parse_hosts, read_hostfile

    asked: dict[str, int | None] = {}
    if options.hosts is not None:
        asked |= {h.name: h.slots for h in parse_hosts(options.hosts)}
    if options.hostfile is not None:
        asked |= {h.name: h.slots for h in read_hostfile(Path(options.hostfile))}
    return asked


def _named_hosts(grid: Grid, asked: Mapping[str, int | None]) -> Grid:
    """Return the named hosts of the grid; without a grid file, this machine under any of its names."""
    by_name = {h.name: h for h in grid.hosts}
    built_in = grid.source == BUILT_IN
    if built_in:
        by_name |= {
            name: replace(grid.hosts[0], name=name) for name in asked if is_this_machine(Host(name=name))
        }
    unknown = [name for name in asked if name not in by_name]
    if unknown:
        legal = ", ".join(sorted(names_of_this_machine()) if built_in else by_name)
        raise ConfigError(
            f"no host {', '.join(unknown)} in {'this machine' if built_in else grid.source}; legal are {legal}. "
            "Other hosts are described in a grid file (--grid), or only named with --launcher ssh"
        )
    hosts = [
        by_name[name] if slots is None else replace(by_name[name], slots=slots)
        for name, slots in asked.items()
    ]
    return replace(grid, hosts=tuple(hosts))
