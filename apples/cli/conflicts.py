"""Options of `apples-run` that exclude each other, or that lack another option. Every check returns its problems."""

from collections.abc import Iterable
from pathlib import Path

from apples.cli.runoptions import (
    DEFAULT_LAUNCHER,
    SERVICE_GRID,
    LaunchOptions,
    PoolOptions,
    RunOptions,
    SharingOptions,
)
from apples.errors import ConfigError
from apples.model.template import Application

#: Options of Slurm, the only launcher with options of its own in `PoolOptions`.
_OF_SLURM = ("partition", "account", "qos", "reservation", "constraint", "exclusive", "immediate", "nodes")


def run_conflicts(options: RunOptions) -> list[str]:
    """Return the problems of an `apples-run` call that no single option shows."""
    pool, weather, output = options.pool, options.weather, options.output
    conflicts, platform = [], pool.kind
    if platform.shares_hosts:
        conflicts = [
            f"--{name} {value} is of the mock grid; add --mock or --scenario FILE"
            for name, value in (("load", pool.load), ("seed", pool.seed))
            if value is not None
        ]
        if pool.grid_file == SERVICE_GRID and not weather.nws and not Path(SERVICE_GRID).is_file():
            conflicts.append("--grid nws is the pool of a weather service; name one with --nws URL")
    elif weather.nws:
        conflicts.append(
            f"--nws {weather.nws} and a mock grid exclude each other: its weather is simulated too"
        )
    if not weather.nws and weather.nws_stale_after is not None:
        conflicts.append(
            f"--nws-stale-after {weather.nws_stale_after} is for a weather service; add --nws URL"
        )
    if not platform.starts_programs and (pool.mpi or pool.mpi_args):
        conflicts.append("--mpi and --mpi-args are for real ranks, the mock grid has none; leave them out")
    if not platform.can_cut_two_axes and options.plan.cut in ("rectilinear", "columns"):
        conflicts.append(
            f"--cut {options.plan.cut} is for real ranks, the mock grid has slabs only; leave it out"
        )
    if options.plan.cut not in (None, "auto") and options.plan.scheduler != "apples":
        conflicts.append(
            f"--cut {options.plan.cut} is for the planner; leave it or --scheduler {options.plan.scheduler} out"
        )
    conflicts += pool_conflicts(pool, options.sharing)
    if output.as_json and output.json_lines:
        conflicts.append("--json and --json-lines exclude each other; give one of them")
    return conflicts


def pool_conflicts(pool: PoolOptions, sharing: SharingOptions | None = None) -> list[str]:
    """Return the problems of a pool's options with its launcher; for an unknown launcher, only that one."""
    from apples.platforms.finding import find_platform

    sharing = sharing or SharingOptions()
    given = [name for name in _OF_SLURM if getattr(pool, name)]
    if pool.launcher == DEFAULT_LAUNCHER:
        return _not_slurm(given)
    values = {
        "mock": pool.mock,
        "scenario": pool.scenario,
        "monitor": sharing.monitor,
        "wait": sharing.wait,
        "policy": sharing.coscheduled,
        "queue": sharing.queue,
    }
    try:
        platform = find_platform(pool.launcher)
    except ConfigError as error:
        return list(error.problems)
    problems = _excluded(
        f"--launcher {pool.launcher}",
        [(name, values.get(name), why) for name, why in platform.excludes.items()],
    )
    served = [name for name in given if name in platform.options]
    problems += _not_slurm(name for name in given if name not in served)
    return problems + platform.option_problems(served)


def unserved_options(run: LaunchOptions, template: Application) -> list[str]:
    """Return the problems of options that the application cannot serve: moving rows, and checkpoints."""
    conflicts = []
    if run.adapt != "off" and not template.moves_rows:
        conflicts.append(
            f"--adapt {run.adapt}: {template.name} cannot move rows while it runs; leave --adapt out"
        )
    if template.checkpoint is not None:
        return conflicts
    restarts = template.restart is not None
    given = (
        ("--checkpoint", run.checkpoint if run.checkpoint != "off" else None),
        ("--checkpoint-every", run.checkpoint_every),
        ("--mtbf", run.mtbf),
        ("--resume", "" if run.resume and not restarts else None),
    )
    why = "cannot go on from a checkpoint"
    if restarts:
        why = "writes its checkpoints itself, and goes on from the newest with --resume"
    elif template.source is not None:
        why += f" (no restart in {template.source})"
    return conflicts + [
        f"{f'{flag} {value}'.strip()}: {template.name} {why}; leave {flag} out"
        for flag, value in given
        if value is not None
    ]


def sharing_conflicts(options: RunOptions) -> list[str]:
    """Return the problems of the options that share hosts; they show before anything is opened."""
    pool, sharing = options.pool, options.sharing
    flags = [flag for flag, given in (("--mock", pool.mock), ("--scenario", pool.scenario)) if given]
    if not flags and not pool.kind.shares_hosts:
        flags = [f"--launcher {pool.launcher}"]
    where = "the mock grid" if pool.platform == "mock" else f"platform {pool.platform}"
    conflicts = [
        f"{flag} is for a run in the queue; add --queue"
        for flag, given in (
            ("--detach", sharing.detach),
            ("--project", sharing.project),
            ("--oversubscribe", sharing.oversubscribe),
        )
        if given and not sharing.queue
    ]
    wait = None if sharing.wait is None else f"--wait {sharing.wait}"
    monitored = "--monitor" if sharing.monitor else wait
    real = [
        (f"--queue is for real ranks, {where} has no queue", sharing.queue),
        (f"--policy {sharing.coscheduled} is for real hosts", sharing.coscheduled),
        (f"{monitored} is for real ranks, {where} has none", monitored),
    ]
    conflicts += [f"{text}; leave {flag} out" for text, given in real if given for flag in flags]
    if wait is not None and sharing.coscheduled is not None:
        conflicts.append(
            f"{wait} and --policy exclude each other: under a policy the node manager sets how ranks wait"
        )
    return conflicts


def _excluded(option: str, others: Iterable[tuple[str, object, str]]) -> list[str]:
    """Return a problem for each (name, value, reason) whose value is given."""
    return [f"{option} and --{name} exclude each other: {why}" for name, value, why in others if value]


def _not_slurm(given: Iterable[str]) -> list[str]:
    return [f"--{name} is for --launcher slurm; add it, or leave --{name} out" for name in given]
