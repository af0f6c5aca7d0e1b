"""The pool of an `apples-run` call: hosts of a grid file, a list or the weather service, and their platform."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from apples.cli.optiongroups import parse_settings
from apples.cli.runoptions import SERVICE_GRID, PoolOptions, WeatherOptions
from apples.errors import ConfigError
from apples.launching.mpis import Family
from apples.launching.preflight import names_of_this_machine
from apples.livequeue.queuehosts import HOSTS_VARIABLE
from apples.model.grid import Grid, Host
from apples.model.launchrequest import MpiChoice
from apples.platforms.finding import find_platform
from apples.platforms.platform import Platform, PlatformSetup, is_this_machine, this_machine
from nws.base.durations import parse_duration
from nws.base.errors import UsageError
from nws.base.hostlist import HostSlots, expand, parse_hosts, read_hostfile
from nws.client import Endpoint, state_dir

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.model.gridfile import GridFile
    from apples.model.launchrequest import Notify
    from apples.platforms.serviceforecasts import ServiceWeather
    from apples.platforms.sharedhosts import SharedHosts

#: Source of a grid that no file describes.
BUILT_IN = "built in"

#: Options of the command line that may be options of a platform.
_COMMAND_LINE = {each.name for each in fields(PoolOptions)} - {"launcher", "launcher_options"}


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
    session: SharingSession | SharedHosts | None = None,
) -> tuple[Platform, GridFile | None]:
    """Return the platform that the options select, and its grid file if there is one; raise `ConfigError`."""
    kind = find_platform(options.platform)
    # A job of the queue keeps to the hosts that the queue gave it, unless it names others.
    given = os.environ.get(HOSTS_VARIABLE)
    if given and options.hosts is None and options.hostfile is None and kind.shares_hosts:
        options = replace(options, hosts=given)
    of_service = options.grid_file == SERVICE_GRID and service is not None
    file = None if of_service else open_grid_file(options.grid_file)
    grid = None if file is None else file.grid
    if service is not None and of_service:
        grid = service.pool(notify)
    platform = kind.open(
        PlatformSetup(
            grid=grid,
            stated=file is not None,
            of_service=of_service,
            listed=listed_hosts(options),
            restrict=lambda pool: choose_hosts(pool, options),
            options=launcher_options(options, kind),
            service=service,
            turns=None if session is None else session.turns,
            sharing=None if session is None else session.hosts,
            state=state_dir() / "hosts",
        )
    )
    platform.mpi = mpi_choice(options)
    return platform, file or platform.grid_file


def mpi_choice(options: PoolOptions) -> MpiChoice:
    """Return the MPI that the options choose; raise `ConfigError`."""
    if options.mpi is not None and os.sep not in options.mpi and options.mpi not in tuple(Family):
        raise ConfigError(f"--mpi {options.mpi}: legal are {', '.join(Family)}, or the path of an mpiexec")
    try:
        return MpiChoice(which=options.mpi, arguments=tuple(shlex.split(options.mpi_args or "")))
    except ValueError as error:
        raise ConfigError(f"--mpi-args {options.mpi_args}: {error}; quote it as for a shell") from error


def launcher_options(options: PoolOptions, kind: type[Platform]) -> dict[str, str]:
    """Return the platform's own options; raise `ConfigError` for those that it does not have.

    An option of the command line that has the name of a platform's option is one of them.
    """
    settings = {
        name: str(value)
        for name in kind.options
        if name in _COMMAND_LINE and (value := getattr(options, name)) is not None and value is not False
    }
    settings |= parse_settings(options.launcher_options, flag="--launcher-option", example="seed=1")
    unknown = [name for name in settings if name not in kind.options]
    if unknown:
        legal = ", ".join(kind.options) or "none"
        raise ConfigError(f"--launcher {kind.name} has no option {', '.join(unknown)}; legal are {legal}")
    return settings


def open_grid_file(name: str | None) -> GridFile | None:
    """Return the grid file of that name or path, None for None; raise `ConfigError`."""
    from apples.model.config import find_config
    from apples.model.gridfile import load_grid_file

    return None if name is None else load_grid_file(find_config(name))


def choose_hosts(grid: Grid, options: PoolOptions) -> Grid:
    """Return the pool: hosts of -H or --hostfile, else all of the grid, after --include and --exclude."""
    if not any((options.hosts, options.hostfile, options.include, options.exclude)):
        return grid

    if listed := listed_hosts(options):
        grid = _named_hosts(grid, listed)
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


def listed_hosts(options: PoolOptions) -> dict[str, HostSlots]:
    """Return the entries of -H and --hostfile by host."""
    entries = () if options.hosts is None else parse_hosts(options.hosts)
    if options.hostfile is not None:
        entries += read_hostfile(Path(options.hostfile))
    return {entry.name: entry for entry in entries}


def _named_hosts(grid: Grid, listed: Mapping[str, HostSlots]) -> Grid:
    """Return the named hosts of the grid; without a grid file, this machine under any of its names."""
    by_name = {h.name: h for h in grid.hosts}
    built_in = grid.source == BUILT_IN
    if built_in:
        by_name |= {
            name: replace(this_machine().hosts[0], name=name)
            for name in listed
            if is_this_machine(Host(name=name))
        }
    unknown = [name for name in listed if name not in by_name]
    if unknown:
        legal = ", ".join(sorted(names_of_this_machine()) if built_in else by_name)
        raise ConfigError(
            f"no host {', '.join(unknown)} in {'this machine' if built_in else grid.source}; legal are {legal}. "
            "Other hosts are described in a grid file (--grid), or only named with --launcher ssh"
        )
    return replace(grid, hosts=tuple(_as_listed(by_name[name], entry) for name, entry in listed.items()))


def _as_listed(host: Host, entry: HostSlots) -> Host:
    """Return the host with the slots and the user's name of its entry."""
    address = host.address if entry.user is None else f"{entry.user}@{host.address or host.name}"
    return replace(host, slots=entry.slots or host.slots, address=address)
