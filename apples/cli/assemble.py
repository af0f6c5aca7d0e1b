"""From the options of `apples-run` to an agent and a request; one error reports all problems."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from apples import applications
from apples.cli.conflicts import run_conflicts, unserved_options
from apples.cli.console import Console
from apples.cli.optiongroups import Problems, parse_settings
from apples.cli.pool import open_platform, open_service
from apples.cli.runoptions import LaunchOptions, PoolOptions, RunOptions, SharingOptions
from apples.costs.store import new_id, open_history
from apples.errors import ConfigError
from apples.model.launchrequest import MpiChoice, Notify
from apples.model.limits import Limits
from apples.model.runrequest import Benchmarks, Resilience, RunRequest
from apples.planning.adapting.hosts import HostPolicy
from apples.planning.adapting.settings import AdaptSettings
from apples.planning.planningoptions import planning_options
from apples.platforms.platform import Preparation
from apples.platforms.requirements import program_files
from apples.run.agent import Agent
from apples.run.program import find_template
from nws.base.durations import parse_period
from nws.base.files import make_private
from nws.base.reader import load_yaml
from nws.client import state_dir

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.model.progress import AdaptationController
    from apples.model.runrequest import Monitor
    from apples.model.template import Application
    from apples.platforms.platform import Platform
    from apples.platforms.sharedhosts import SharedHosts
    from apples.run.agent import Decision

    MakeController = Callable[[RunRequest, Decision], AdaptationController]


#: Attempts of a run that can continue without a lost host, and of a run on one machine.
MANY_HOSTS, ONE_HOST = 3, 1


def read_resilience(
    pool: PoolOptions,
    options: LaunchOptions,
    settings: Mapping[str, str],
    template: Application | None,
) -> Resilience:
    """Return attempts and checkpoints of the run; raise `ConfigError` with every problem.

    settings : the application's own, of which `checkpoint` and `checkpoint_every` keep their meaning
    template : of the program, None for one that could not be read
    """
    needed = options.adapt == "hosts"
    platform = pool.kind
    attempts = options.attempts or (MANY_HOSTS if platform.several_hosts else ONE_HOST)
    restarts = template is not None and template.restart is not None
    files = platform.starts_programs
    problems = Problems(_conflicts(options, settings, files=files, restarts=restarts))
    rule, every, every_s = _interval(options.checkpoint_every, problems)
    mtbf = options.mtbf
    mtbf_s = None if mtbf is None else problems.collect(lambda: parse_period(mtbf, what="--mtbf"))
    temporary, file = False, None
    if "checkpoint" in settings:
        file = Path(settings["checkpoint"])
        if not platform.several_hosts:
            # Of several hosts, each checks for itself whether it can write there.
            problems += _unwritable(file, f"-s checkpoint={file}")
        if options.checkpoint_every is None:
            every_text = settings.get("checkpoint_every", "")
            rule, every = "iterations", int(every_text) if every_text.isdigit() else None
    elif options.checkpoint not in (None, "auto", "off"):
        file = Path(options.checkpoint)
        problems += _unwritable(file, f"--checkpoint {file}")
    elif options.checkpoint == "auto" or (options.checkpoint is None and (attempts > 1 or needed)):
        temporary, file = True, _temporary_file()
    problems.check()
    return Resilience(
        attempts=attempts,
        file=None if file is None else file.absolute(),
        own=temporary,
        needed=needed,
        resume=options.resume,
        rule=rule,
        every=every,
        every_s=every_s,
        mtbf_s=mtbf_s,
    )


def _conflicts(
    options: LaunchOptions, settings: Mapping[str, str], *, files: bool, restarts: bool
) -> list[str]:
    keep, illegal = options.checkpoint, []
    named = keep not in (None, "auto", "off")
    if keep is not None and "checkpoint" in settings:
        illegal.append(
            f"--checkpoint {keep} and -s checkpoint={settings['checkpoint']} exclude each other; give one of them"
        )
    if named and not files:
        illegal.append(f"--checkpoint {keep}: the mock grid writes no files; give auto or off")
    if options.resume and not named and not restarts and "checkpoint" not in settings:
        illegal.append("--resume: needs --checkpoint FILE, the checkpoint to continue from")
    if options.resume and not files:
        illegal.append("--resume is for real runs; leave it out on the mock grid")
    if keep == "off":
        illegal += [
            f"--{name} {value}: there are no checkpoints with --checkpoint off"
            for name, value in (("checkpoint-every", options.checkpoint_every), ("mtbf", options.mtbf))
            if value is not None
        ]
    if options.checkpoint_every is not None and "checkpoint_every" in settings:
        illegal.append("--checkpoint-every and -s checkpoint_every exclude each other; give one of them")
    return illegal


def _interval(text: str | None, problems: Problems) -> tuple[str, int | None, float | None]:
    """Return the rule, its iterations and its seconds."""
    if text is None or text == "auto":
        return "young", None, None
    if text.isdigit():
        if int(text) == 0:
            problems.append("--checkpoint-every 0: expected 1 iteration or more")
        return "iterations", int(text), None
    return "time", None, problems.collect(lambda: parse_period(text, what="--checkpoint-every"))


def _unwritable(file: Path, flag: str) -> list[str]:
    """Return why a checkpoint cannot be written there on this machine; empty if it can."""
    directory = file.absolute().parent
    if file.is_dir():
        return [f"{flag}: is a directory; give a file"]
    if not directory.is_dir():
        return [f"{flag}: the directory {directory} does not exist; make it first"]
    if not os.access(directory, os.W_OK):
        return [f"{flag}: the directory {directory} may not be written to"]
    return []


def _with_directory(resilience: Resilience, *, requested: bool, notify: Notify) -> Resilience:
    """Make the directory of a temporary checkpoint. If that fails, run without one, or raise `ConfigError`.

    requested : the user has asked for checkpoints, by name or for adaptation
    """
    if resilience.file is None or not resilience.own:
        return resilience
    directory = resilience.file.parent
    try:
        make_private(directory)
        if os.access(directory, os.W_OK):
            return resilience
        problem = "may not be written to"
    except OSError as error:
        problem = f"cannot be made: {error.strerror}"
    problem = f"{directory} {problem}; give a file, off, or set APPLES_STATE"
    if requested:
        raise ConfigError([f"--checkpoint auto: {problem}"])
    notify(f"without checkpoints: {problem}")
    return replace(resilience, file=None, own=False)


def _temporary_file() -> Path:
    """Return the path of a new temporary checkpoint: its name is the time and a random part."""
    return state_dir() / "checkpoints" / f"{new_id(time.time())}.ckpt"


def adapt_settings(
    pool: PoolOptions, options: LaunchOptions, resilience: Resilience | None
) -> AdaptSettings | None:
    """Return the settings of adaptation, None for no adaptation; raise `ConfigError`.

    resilience : None if its options are wrong
    """
    from apples.model.config import find_config

    file = options.adapt_settings
    if options.adapt == "off":
        if file is not None:
            raise ConfigError(f"--adapt-settings {file}: needs --adapt slabs or --adapt hosts")
        return None
    without_file = resilience is not None and resilience.file is None and pool.kind.starts_programs
    if options.adapt == "hosts" and without_file:
        raise ConfigError("--adapt hosts needs a checkpoint to continue from; leave --checkpoint off out")
    return AdaptSettings() if file is None else load_yaml(find_config(file), AdaptSettings)


def controllers(
    platform: Platform, settings: AdaptSettings | None, notify: Notify, *, hosts: bool
) -> MakeController | None:
    """Return a function that builds the controller of an attempt, None without adaptation.

    hosts : the run may continue on other hosts
    """
    if settings is None:
        return None
    from apples.run.adaptation import ControllerInputs, HostController, SlabController, adaptation_inputs

    policy = HostPolicy(settings.hosts) if hosts else None

    def watch(request: RunRequest, decision: Decision) -> AdaptationController:
        slabs = SlabController(adaptation_inputs(decision, planning_options(request)), settings, notify)
        if policy is None:
            return slabs
        pool = ControllerInputs(
            decision=decision,
            options=planning_options(request),
            snapshot=lambda: request.as_waiting(platform.snapshot(lambda line: None)),
            change_s=0.0 if decision.interval is None else 2.0 * decision.interval.cost_s,
            beside=platform.starts_programs,
        )
        return HostController(slabs, policy, pool, notify)

    return watch


def _limited(limits: Limits) -> dict[str, Limits]:
    """Return the field of `PlanningOptions`, none without limits."""
    return {"limits": limits} if limits or limits.prices else {}


def _preparation(request: RunRequest, mpi: MpiChoice) -> Preparation:
    """Return the requirements of the run on hosts."""
    template, resilience = request.template, request.resilience
    room = request.size * template.workload(request.size, request.settings).bytes_per_row
    return Preparation(
        warm_command=template.warm,
        checkpoint=None if template.checkpoint is None else resilience.file,
        # A named checkpoint must fit on the disk, and be the same file on every host.
        checkpoint_bytes=None if resilience.own else room,
        program_files=program_files(template, request.settings, mpi),
        runs=request.benchmarks is Benchmarks.ALL,
    )


def _polls(sharing: SharingOptions) -> bool:
    """Return whether ranks without a policy wait as their MPI does, which mostly polls."""
    return sharing.wait in ("mpi", "poll") or (sharing.wait is None and sharing.policy == "none")


def assemble(
    size: int,
    options: RunOptions,
    console: Console,
    session: SharingSession | SharedHosts | None = None,
    monitor: Monitor | None = None,
) -> tuple[Agent, RunRequest]:
    """Return the agent and the request of an `apples-run` call; raise `ConfigError` with every problem.

    Args:
        size: rows.
        session: how the run shares its hosts, None without a policy.
        monitor: monitor of the ranks, None without one.
    """
    problems, run, pool = Problems(), options.run, options.pool
    settings = problems.collect(lambda: parse_settings(run.settings)) or {}
    limit = run.time_limit
    limit_s = None if limit is None else problems.collect(lambda: parse_period(limit, what="--time-limit"))
    problems += run_conflicts(options)
    service = problems.collect(lambda: open_service(options.weather))
    opened = problems.collect(lambda: open_platform(pool, service, console.note, session))
    platform, file = opened or (None, None)
    limits = problems.collect(options.limits.read) or Limits()
    problems += [] if platform is None else limits.unknown((file.grid if file else platform.pool).hosts)
    template: Application | None = None
    # An unreadable grid file may describe the application; then only the file's problems are reported.
    if platform is not None or run.app in (None, *applications.names()):
        template = problems.collect(lambda: find_template(run.app, platform, file))
    if template is not None:
        problems.collect(lambda: template.check(settings))
        problems += unserved_options(run, template)
    resilience = problems.collect(lambda: read_resilience(pool, run, settings, template))
    adapt = problems.collect(lambda: adapt_settings(pool, run, resilience))
    if problems or platform is None or template is None or resilience is None:
        # An unknown launcher is found both by the conflicts and on opening the platform.
        raise ConfigError(dict.fromkeys(problems))
    request = RunRequest(
        size=size,
        template=template,
        settings=settings,
        scheduler=options.plan.scheduler,
        overrides=options.plan.overrides
        | _limited(limits if file is None else file.limits | limits)
        | ({"prices": True} if options.output.explain else {}),
        label=options.output.label,
        time_limit_s=limit_s,
        program_output_to_stderr=options.output.as_json or options.output.json_lines,
        environment={} if session is None else session.environment,
        sharing=session,
        monitor=monitor,
        adaptive_waits=options.sharing.policy == "auto" and options.sharing.wait is None,
        polling=_polls(options.sharing),
        resilience=resilience,
        benchmarks=Benchmarks.BUILT_IN if options.output.dry_run else Benchmarks.ALL,
        make_controller=controllers(platform, adapt, console.note, hosts=run.adapt == "hosts"),
    )
    # Options that contradict each other are an error before any file is opened.
    planning_options(request)
    if pool.kind.starts_programs and not options.output.dry_run:
        requested = run.checkpoint is not None or resilience.needed
        resilience = _with_directory(resilience, requested=requested, notify=console.note)
        request = replace(request, resilience=resilience)
    platform.prepare(_preparation(request, platform.mpi))
    stated = {} if file is None else {n: a.costs for n, a in file.applications.items() if a.costs is not None}
    history, report = open_history(console.note), service.report if service else None
    return Agent(platform, history, console.note, stated=stated, report=report), request
