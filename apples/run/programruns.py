"""One launch of a user's program: its files and commands, the monitor in its ranks, its observations.

Without a compiler the monitor cannot be built; the run then takes place and teaches nothing.
"""

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from apples.errors import MonitorError
from apples.launching.deployment import deploy, run_commands
from apples.launching.filelock import locked
from apples.model.launchrequest import LaunchRequest, Notify
from apples.model.plan import Outcome
from apples.model.template import Deployment
from apples.monitoring.environment import figures_of, joined
from apples.monitoring.job import JOB, MonitoredRun
from apples.monitoring.names import DIRECTORY_VARIABLE, JOB_VARIABLE
from apples.platforms.platform import Platform
from apples.platforms.programcosts import observations_of
from apples.run.agent import Decision
from nws.base.files import make_private
from nws.client import state_dir


def run_program(
    platform: Platform,
    launch: LaunchRequest,
    start: Deployment,
    decision: Decision,
    notify: Notify,
    *,
    monitored: bool,
) -> Outcome:
    """Deploy the program, run it, and finish a complete run; return the outcome.

    monitored : the monitor is in its ranks, and the outcome has what it observed

    Raises:
        ConfigError: A template cannot be rendered, or the program's directory does not exist.
        LaunchError: A command failed, the ranks cannot be started, or another run uses the rendered files.
    """
    launch = _monitored(launch, notify) if monitored else launch
    with _locked(start):
        deploy(start, notify)
        outcome = platform.run(launch, notify)
        if monitored:
            outcome = _with_observations(outcome, launch, decision)
        if outcome.finished:
            run_commands("finish", start.finish, start, notify)
    return outcome


def _locked(start: Deployment) -> AbstractContextManager[None]:
    """Return the lock of the files that a run renders; a run that renders none disturbs no other."""
    if not start.files:
        return nullcontext()
    name = hashlib.sha256(str(start.directory).encode()).hexdigest()[:16]
    directory = state_dir() / "locks"
    make_private(directory)
    return locked(
        directory / name, f"rendering {', '.join(p.name for p in start.files)} in {start.directory}"
    )


def _monitored(launch: LaunchRequest, notify: Notify) -> LaunchRequest:
    """Return the launch with the monitor loaded into its ranks, if it is not loaded already.

    The pages are in the run directory, so that they come back from other hosts with the other files.
    """
    if DIRECTORY_VARIABLE in launch.environment:
        return launch
    try:
        variables = MonitoredRun(job=launch.environment.get(JOB_VARIABLE, JOB)).environment(launch.run_dir)
    except MonitorError as error:
        notify(f"this run will not improve predictions: {error}")
        return launch
    return replace(launch, environment=joined(launch.environment, variables))


def _with_observations(outcome: Outcome, launch: LaunchRequest, decision: Decision) -> Outcome:
    """Return the outcome with the observations that the monitor left; unchanged without any.

    After moves of rows the ranks' totals belong to no cut, so such a run teaches nothing.
    """
    environment: Mapping[str, str] = launch.environment
    if DIRECTORY_VARIABLE not in environment or outcome.moves:
        return outcome
    try:
        counters = figures_of(Path(environment[DIRECTORY_VARIABLE]), environment[JOB_VARIABLE])
    except MonitorError:
        return outcome
    ranks = decision.plan.assignments
    fixed_s, row_s = decision.setup_cpu_s
    found = observations_of(
        counters,
        decision.plan.rows,
        [a.host for a in ranks],
        iterations=decision.workload.iterations,
        setup_cpu_s=[fixed_s + row_s * a.work for a in ranks],
    )
    return replace(outcome, observations=found)
