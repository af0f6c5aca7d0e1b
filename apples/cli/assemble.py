"""From the options of `apples-run` to an agent and a request; one error reports all problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apples import applications
from apples.cli.adaptation import adapt_settings, controllers
from apples.cli.conflicts import run_conflicts, unserved_options
from apples.cli.console import Console
from apples.cli.optiongroups import Problems
from apples.cli.pool import open_platform, open_service
from apples.cli.resilience import read_resilience
from apples.cli.runoptions import RunOptions
from apples.cli.settings import parse_settings
from apples.errors import ConfigError
from apples.learning.stores import open_benchmarks, open_history
from apples.model.limits import Limits
from apples.model.template import Restartable
from apples.platforms.platform import Preparation
from apples.platforms.requirements import program_files
from apples.run.agent import Agent
from apples.run.costing import Costing
from apples.run.program import find_template
from apples.run.request import RunRequest
from nws.base.durations import parse_period

if TYPE_CHECKING:
    from apples.daemons.session import SharingSession
    from apples.model.template import Template
    from apples.platforms.sharedhosts import SharedHosts
    from apples.run.request import Monitor


def _limited(limits: Limits) -> dict[str, Limits]:
    """Return the field of `PlanningOptions`, none without limits."""
    return {"limits": limits} if limits or limits.prices else {}


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
        session: coscheduling of the run, None without a policy.
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
    template: Template | None = None
    # An unreadable grid file may describe the application; then only the file's problems are reported.
    if platform is not None or run.app in (None, *applications.names()):
        template = problems.collect(lambda: find_template(run.app, platform, file))
    if template is not None:
        problems.collect(lambda: template.check(settings))
        problems += unserved_options(run, template)
    resilience = problems.collect(lambda: read_resilience(pool, run, settings, template))
    adapt = problems.collect(lambda: adapt_settings(run, resilience))
    if problems or platform is None or template is None or resilience is None:
        # An unknown launcher is found both by the conflicts and on opening the platform.
        raise ConfigError(dict.fromkeys(problems))
    room = size * template.workload(size, settings).bytes_per_row
    platform.prepare(
        Preparation(
            warm_command=template.warm_command(),
            checkpoint=resilience.file if isinstance(template, Restartable) else None,
            # A named checkpoint must fit on the disk, and be the same file on every host.
            checkpoint_bytes=None if resilience.own else room,
            program_files=program_files(template, settings, platform.mpi),
        )
    )
    request = RunRequest(
        size=size,
        template=template,
        settings=settings,
        scheduler=options.plan.scheduler,
        overrides=options.plan.overrides | _limited(limits if file is None else file.limits | limits),
        label=options.output.label,
        time_limit_s=limit_s,
        program_output_to_stderr=options.output.as_json or options.output.json_lines,
        environment={} if session is None else session.environment,
        shared=None if session is None else session.observed,
        monitor=monitor,
        adaptive_waits=options.sharing.policy == "auto" and options.sharing.wait is None and session is None,
        resilience=resilience,
        starts_programs=not options.output.dry_run,
        make_controller=controllers(platform, adapt, console.note, hosts=run.adapt == "hosts"),
    )
    stated = {} if file is None else {n: a.costs for n, a in file.applications.items() if a.costs is not None}
    costing = Costing(open_benchmarks(), history := open_history(), stated)
    report = service.report if service else None
    return Agent(platform, history, costing, console.note, report=report), request
