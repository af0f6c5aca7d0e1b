"""From command line options to an agent and a request: files are read here, every problem is told at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apples import applications
from apples.applications.known import KnownByModel
from apples.cli import adapting, resilience, slurmoptions
from apples.cli.console import Console
from apples.cli.exclusions import MOCK, MONITOR, excluded, without_hosts
from apples.cli.places import open_benchmarks, open_history
from apples.errors import ConfigError
from apples.launching.preflight import names_of_this_machine
from apples.livequeue.hosts import HOSTS_VARIABLE
from apples.model.grid import Grid, Host
from apples.model.template import Costs
from apples.platforms.local import LocalPlatform
from apples.platforms.platform import Platform, is_this_machine, this_machine
from apples.run.agent import Agent, RunRequest
from apples.run.costing import Costing
from nws.base.durations import parse_duration
from nws.base.errors import UsageError
from nws.client import Endpoint, state_dir

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.launching.launcher import Notify
    from apples.model.gridfile import GridFile
    from apples.model.snapshots import Turns
    from apples.model.template import Template, Workload
    from apples.monitoring.job import MonitoredJob
    from apples.platforms.serviceforecasts import ServiceWeather
    from apples.run.resilience import Resilience

#: Options of the command that are fields of `PlanningOptions` of the same name.
_OVERRIDES = (
    "model",
    "counts",
    "allocation",
    "rank_order",
    "improve",
    "quantile",
    "tolerance",
    "allow_spill",
    "max_ranks",
    "ranks",
)

#: Source of a grid that no file states.
BUILT_IN = "built in"

#: The mock grid's scenario where the user names none.
DEFAULT_SCENARIO = "centurion"
DEFAULT_LOAD, DEFAULT_SEED = "loaded", 1


#: What --grid says instead of a file when the pool is what the weather service knows.
SERVICE_GRID = "nws"


def _unheard(text: str) -> None:
    """Nobody is told."""


def assemble(
    size: int,
    options: Mapping[str, Any],
    console: Console,
    session: SharingSession | None = None,
    job: MonitoredJob | None = None,
) -> tuple[Agent, RunRequest]:
    """Agent and request of an `apples-run` call; raises `ConfigError` with every problem of the options.

    session : where the run takes turns.  job : its monitor
    """
    problems: list[str] = []

    def collect(read: Callable[[], Any], otherwise: Any = None) -> Any:
        try:
            return read()
        except ConfigError as error:
            problems.extend(error.problems)
            return otherwise

    settings = collect(lambda: parse_settings(options["settings"]), {})
    limit_s = collect(lambda: _time_limit(options["time_limit"]))
    problems += _contradictions(options)
    service = collect(lambda: open_service(options))
    turns = None if session is None else session.turns
    world_and_file = collect(lambda: open_platform(options, service, console.note, turns))
    platform, file = world_and_file or (None, None)
    template: Template | None = None
    # An unreadable grid file may know the application; its own problems come first then.
    if platform is not None or options["app"] in (None, *applications.names()):
        template = collect(lambda: find_template(options["app"], platform, file))
    if template is not None:
        checked = template
        collect(lambda: checked.check(settings))
    wanted = collect(lambda: resilience.read(options, settings))
    adapt = collect(lambda: adapting.read(options, wanted))
    if problems or platform is None or template is None:
        raise ConfigError(problems)
    if options["launcher"] in resilience.SPREADING:
        prepare_hosts(platform, template)
        _need_disk(platform, template, (size, settings), wanted)
    request = RunRequest(
        size=size,
        template=template,
        settings=settings,
        scheduler=options["scheduler"],
        overrides={name: options[name] for name in _OVERRIDES if options[name] is not None},
        label=options["label"],
        time_limit_s=limit_s,
        program_output_to_stderr=options["as_json"] or options["json_lines"],
        environment={
            **({} if session is None else session.environment),
            **({} if job is None else job.environment),
        },
        shared=None if session is None else session.observed,
        monitored=None if job is None else job.document,
        resilience=wanted,
        make_controller=adapting.controllers(platform, adapt, options, console.note),
    )
    history = open_history()
    costing = Costing(open_benchmarks(), history, {} if file is None else _stated(file))
    tell = None if service is None else service.tell
    return Agent(platform, history, costing, console.note, tell=tell), request


def prepare_hosts(platform: Platform, template: Template) -> None:
    """Tell a platform of many hosts that the application needs compiled kernels there."""
    from apples.platforms.slurm import SlurmPlatform
    from apples.platforms.ssh import SshPlatform
    from apples.remote.warmhosts import WarmHosts

    assert isinstance(platform, SshPlatform | SlurmPlatform)
    platform.keep_warm(template.warm_command(), WarmHosts(state_dir() / "hosts" / "warm.json"))


def _need_disk(
    platform: Platform, template: Template, run: tuple[int, Mapping[str, str]], wanted: Resilience
) -> None:
    """Tell a platform of many hosts what room the run needs, and which directory they must share."""
    from apples.platforms.slurm import SlurmPlatform
    from apples.platforms.ssh import SshPlatform

    assert isinstance(platform, SshPlatform | SlurmPlatform)
    if wanted.file is None:
        return
    if wanted.own:
        platform.wish_disk(wanted.file)
        return
    # What a run writes and reads again must have room, and be the same file on every host.
    size, settings = run
    platform.need_disk(wanted.file, size * template.workload(size, settings).bytes_per_row)


def _time_limit(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = parse_duration(text, what="--time-limit")
    if seconds <= 0:
        raise ConfigError(f"--time-limit {text}: expected more than 0 seconds")
    return seconds


def _contradictions(options: Mapping[str, Any]) -> list[str]:
    """Options that would be read by nobody, or that exclude each other."""
    found = []
    if not (options["mock"] or options["scenario"] is not None):
        found = [
            f"--{name} {options[name]} is of the mock grid; add --mock or --scenario FILE"
            for name in ("load", "seed")
            if options[name] is not None
        ]
        if options["grid_file"] == SERVICE_GRID and not options["nws"] and not Path(SERVICE_GRID).is_file():
            found.append("--grid nws is the pool of a weather service; name one with --nws URL")
    elif options["nws"]:
        found.append(
            f"--nws {options['nws']} and a mock grid exclude each other: its weather is simulated too"
        )
    if not options["nws"] and options["nws_stale_after"] is not None:
        found.append(
            f"--nws-stale-after {options['nws_stale_after']} is for a weather service; add --nws URL"
        )
    if options["launcher"] == "ssh":
        found += _not_over_ssh(options)
    found += slurmoptions.problems(options)
    for one, other in (("as_json", "json_lines"), ("quiet", "verbose")):
        if options[one] and options[other]:
            names = [name.removeprefix("as_").replace("_", "-") for name in (one, other)]
            found.append(f"--{names[0]} and --{names[1]} exclude each other; give one of them")
    return found


def _not_over_ssh(options: Mapping[str, Any]) -> list[str]:
    """What --launcher ssh cannot be together with, and what it needs."""
    reasons = {
        "mock": MOCK,
        "scenario": MOCK,
        "policy": "turns are taken on this machine only",
        "monitor": MONITOR,
        "wait": "ranks are told how to wait on this machine only",
    }
    return [*excluded("--launcher ssh", options, reasons), *without_hosts(options)]


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE pairs as a mapping; raises `ConfigError` naming every pair that is none."""
    wrong = [pair for pair in pairs if "=" not in pair or pair.startswith("=")]
    if wrong:
        raise ConfigError([f"--set {pair}: expected KEY=VALUE, for example --set nx=128" for pair in wrong])
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def open_service(options: Mapping[str, Any]) -> ServiceWeather | None:
    """The weather service the options name, not yet asked anything; None when they name none."""
    from apples.platforms.serviceforecasts import STALE_AFTER_S, ServiceWeather

    if not options["nws"]:
        return None
    stale_after_s = STALE_AFTER_S
    if options["nws_stale_after"] is not None:
        stale_after_s = parse_duration(options["nws_stale_after"], what="--nws-stale-after")
    token_file, ca = (options[name] and Path(options[name]) for name in ("nws_token_file", "nws_ca"))
    try:
        endpoint = Endpoint.of(options["nws"], token_file=token_file or None, ca=ca or None)
    except UsageError as error:
        raise ConfigError(f"--nws: {error}") from error
    return ServiceWeather(endpoint, stale_after_s=stale_after_s)


def open_platform(
    options: Mapping[str, Any],
    service: ServiceWeather | None = None,
    notify: Notify = _unheard,
    turns: Turns | None = None,
) -> tuple[Platform, GridFile | None]:
    """The platform the options ask for, and the grid file behind it, if any."""
    if options["mock"] or options["scenario"] is not None:
        return _open_mock(options)
    options = _given_by_the_queue(options)
    if options["launcher"] == "ssh":
        return _open_ssh(options, service, notify)
    if options["launcher"] == "slurm":
        return slurmoptions.open_slurm(options, service, notify)
    if options["grid_file"] == SERVICE_GRID and service is not None:
        grid = service.pool(notify)
        hosts = choose_hosts(grid or this_machine(), options)
        return LocalPlatform(hosts, service=service, turns=turns), None
    file = open_grid_file(options["grid_file"])
    grid = this_machine() if file is None else file.grid
    return LocalPlatform(choose_hosts(grid, options), service=service, turns=turns), file


def _given_by_the_queue(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """A job of the queue keeps to the hosts it was given, unless it names others."""
    given = os.environ.get(HOSTS_VARIABLE)
    if not given or options["hosts"] is not None or options["hostfile"] is not None:
        return options
    return {**options, "hosts": given}


def _open_ssh(
    options: Mapping[str, Any], service: ServiceWeather | None, notify: Notify
) -> tuple[Platform, GridFile | None]:
    """The hosts of the grid file or the service, or those that were only named: they say the rest themselves."""
    from apples.platforms.ssh import SshPlatform

    if options["grid_file"] == SERVICE_GRID and service is not None:
        return SshPlatform(
            choose_hosts(service.pool(notify) or this_machine(), options), service=service
        ), None
    file = open_grid_file(options["grid_file"])
    if file is not None:
        return SshPlatform(choose_hosts(file.grid, options), service=service), file
    asked = asked_hosts(options)
    hosts = tuple(Host(name=name, slots=slots or 1) for name, slots in asked.items())
    pool = choose_hosts(Grid(name="hosts by name", hosts=hosts, source="the hosts named"), options)
    told = frozenset(name for name, slots in asked.items() if slots is None)
    return SshPlatform(pool, open_slots=told, open_types=frozenset(asked), service=service), None


def _open_mock(options: Mapping[str, Any]) -> tuple[Platform, GridFile]:
    """A mock grid on the hosts of the grid file, or of the file its scenario names."""
    from apples.platforms.mock import open_mock
    from apples.simulation.scenario import load_scenario

    name, file = options["scenario"], open_grid_file(options["grid_file"])
    if file is None:
        name = name or DEFAULT_SCENARIO
        file = open_grid_file(load_scenario(name)[0].grid)
        assert file is not None
    grid = choose_hosts(file.grid, options)
    seed, load = options["seed"], options["load"]
    seed = DEFAULT_SEED if seed is None else seed
    return open_mock(name, seed=seed, load=load or DEFAULT_LOAD, grid=grid), file


def open_grid_file(name: str | None) -> GridFile | None:
    """The grid file of that name or path, None for none; raises `ConfigError`."""
    from apples.model.config import find_config
    from apples.model.gridfile import load_grid_file

    return None if name is None else load_grid_file(find_config(name))


def choose_hosts(grid: Grid, options: Mapping[str, Any]) -> Grid:
    """The pool: the grid's hosts, or those of -H or --hostfile, kept and left out as asked."""
    if all(options[name] is None for name in ("hosts", "hostfile", "include", "exclude")):
        return grid
    from apples.model.hostlist import expand

    asked = asked_hosts(options)
    if asked:
        grid = _named_hosts(grid, asked)
    for flag, keep in (("include", True), ("exclude", False)):
        if options[flag] is None:
            continue
        names = set(expand(options[flag]))
        unknown = sorted(names - {h.name for h in grid.hosts})
        if unknown:
            legal = ", ".join(h.name for h in grid.hosts)
            raise ConfigError(f"--{flag} {options[flag]}: no host {', '.join(unknown)} in the pool ({legal})")
        grid = grid.restrict(h.name for h in grid.hosts if (h.name in names) == keep)
    if not grid.hosts:
        raise ConfigError("the pool is empty: --include and --exclude leave no host")
    return grid


def asked_hosts(options: Mapping[str, Any]) -> dict[str, int | None]:
    """Hosts of -H and --hostfile with their slots, None where none are said."""
    from apples.model.hostlist import parse_hosts, read_hostfile

    asked: dict[str, int | None] = {}
    if options["hosts"] is not None:
        asked |= {h.name: h.slots for h in parse_hosts(options["hosts"])}
    if options["hostfile"] is not None:
        asked |= {h.name: h.slots for h in read_hostfile(Path(options["hostfile"]))}
    return asked


def _named_hosts(grid: Grid, asked: Mapping[str, int | None]) -> Grid:
    """Hosts by name out of the grid; without a grid file this machine, by any of its names."""
    by_name = {h.name: h for h in grid.hosts}
    if grid.source == BUILT_IN:
        own = grid.hosts[0]
        here = [Host(name=name) for name in asked if is_this_machine(Host(name=name))]
        by_name |= {host.name: replace(own, name=host.name) for host in here}
    unknown = [name for name in asked if name not in by_name]
    if unknown:
        legal = ", ".join(by_name) if grid.source != BUILT_IN else ", ".join(sorted(names_of_this_machine()))
        raise ConfigError(
            f"no host {', '.join(unknown)} in {grid.source if grid.source != BUILT_IN else 'this machine'}; legal are "
            f"{legal}. Other hosts are described in a grid file (--grid), or only named with --launcher ssh"
        )
    return replace(
        grid,
        hosts=tuple(
            by_name[name] if slots is None else replace(by_name[name], slots=slots)
            for name, slots in asked.items()
        ),
    )


def find_template(name: str | None, platform: Platform | None, file: GridFile | None) -> Template:
    """The application: ours by name, or one that the grid file or the mock grid knows by its model."""
    own = getattr(platform, "workload", None)
    stated = {} if file is None else {n: a for n, a in file.applications.items() if a.demands is not None}
    mock_name = None if own is None else own(1).application
    name = name or mock_name or applications.DEFAULT
    if own is not None and name == mock_name:
        return KnownByModel(name, own, "the mock grid's scenario")
    if name in stated and file is not None:

        def demands(size: int) -> Workload:
            workload = file.workload(name, size)
            assert workload is not None
            return workload

        return KnownByModel(name, demands, str(file.grid.source))
    try:
        return applications.get(name)
    except ConfigError:
        legal = dict.fromkeys([*applications.names(), *stated, *([mock_name] if mock_name else [])])
        raise ConfigError(f"unknown application {name!r}; legal are {', '.join(legal)}") from None


def _stated(file: GridFile) -> dict[str, Costs]:
    """Costs the grid file states, by application."""
    return {name: a.costs for name, a in file.applications.items() if a.costs is not None}
