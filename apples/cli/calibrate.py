"""`apples calibrate`: measure the benchmarks of an application, and show the corrections learned from runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import HeadedCommand, parse_settings, with_options
from apples.cli.runoptions import PoolOptions
from apples.errors import ConfigError

if TYPE_CHECKING:
    from apples.cli.console import Console
    from apples.learning.corrections import Corrections
    from apples.model.template import Costs, Template
    from apples.platforms.platform import Platform


#: Options of the pool that choose machines to measure; a mock grid has none.
POOL = (
    *("grid_file", "hosts", "hostfile", "launcher", "mpi", "mpi_args"),
    *("partition", "account", "qos", "reservation", "constraint", "nodes", "exclusive", "immediate"),
)


@click.command(cls=HeadedCommand)
@click.argument("size", type=click.IntRange(min=1), default=64)
@click.option(
    "-a",
    "--app",
    default="mhd3d",
    show_default=True,
    help="Application: mhd3d, heat, jacobi2d, or an application file.",
)
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Option of the application."
)
@with_options(PoolOptions, only=POOL)
@click.option("--show", is_flag=True, help="Measure nothing; only show what is known.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def calibrate(
    size: int, app: str, settings: tuple[str, ...], show: bool, as_json: bool, options: PoolOptions
) -> None:
    """Measure seconds per row and fit the overhead from the history.

    The cost of a row depends on the part of a slab that stays in the caches, so benchmarks are made for runs near SIZE
    (default 64). They are stored and used by every later run; each finished run corrects them and the overhead.
    """
    from apples.cli.console import Console
    from apples.learning.corrections import corrections
    from apples.learning.stores import open_benchmarks, open_history
    from apples.run import measuring
    from apples.run.costing import Costing
    from apples.run.program import find_template
    from apples.run.request import RunRequest

    template = find_template(app, None, None)
    chosen = parse_settings(settings)
    template.check(chosen)
    console = Console(quiet=as_json)
    platform, history, store = (
        measured_platform(options, template, console),
        open_history(),
        open_benchmarks(),
    )
    costing = Costing(store, history).of(platform, RunRequest(template=template, settings=chosen, size=size))
    if not show:
        measuring.calibrate(costing.benchmarks, console.note)
    costs = costing.known()
    own, others = costing.training_runs()
    found = corrections(own, others)
    if as_json:
        runs = sum(len(of.records) for of in (own, *others))
        known = {"version": 1, "application": app, "key": costing.benchmarks.key}
        click.echo(json.dumps(known | _document(costs, found, runs)))
        return
    if not costs.seconds_per_row:
        click.echo(
            f"no benchmarks of {app} are kept for runs near {size}; apples calibrate measures them", err=True
        )
    click.echo("\n".join(_lines(costs, found)))


def measured_platform(options: PoolOptions, template: Template, console: Console) -> Platform:
    """Return the machines to measure; machines elsewhere report their CPU types in the snapshot."""
    from apples.cli.conflicts import pool_conflicts
    from apples.cli.pool import open_platform
    from apples.platforms.platform import Preparation
    from apples.platforms.requirements import program_files

    problems = pool_conflicts(options)
    if problems:
        raise ConfigError(problems)
    platform, _ = open_platform(options, None, console.note)
    if options.kind.several_hosts:
        files = program_files(template, {}, platform.mpi)
        platform.prepare(Preparation(warm_command=template.warm_command(), program_files=files))
        platform.snapshot(console.note)
    return platform


def _document(costs: Costs, found: Corrections, runs: int) -> dict[str, Any]:
    return {
        "runs": runs,
        "seconds_per_row": {t: dict(table_) for t, table_ in costs.seconds_per_row.items()},
        "corrections": {t: {"factor": c.factor, "runs": c.runs} for t, c in found.types.items()},
        "hosts": {h: {"factor": c.factor, "runs": c.runs} for h, c in found.hosts.items()},
        "overhead": asdict(costs.overhead),
        "start_cpu_s": costs.start_cpu_s,
        "message_cpu_s": costs.message_cpu_s,
        "reduction_hops": costs.reduction_hops,
        "jitter_s": costs.jitter_s,
    }


def _lines(costs: Costs, found: Corrections) -> list[str]:
    from apples.cli.report import table
    from apples.planning.jitter import BALANCED

    rows = []
    for cpu_type, seconds_per_row in costs.seconds_per_row.items():
        factor = found.types[cpu_type].factor if cpu_type in found.types else 1.0
        for ranks, seconds in seconds_per_row.items():
            rows.append([cpu_type, ranks, f"{seconds * 1e6:.4g} µs", f"{factor:.3f}"])
    lines = table(["CPU type", "ranks", "a row and iteration", "runs' correction"], rows)
    if len(found.hosts) > 1:
        own = [[host, f"{c.factor:.3f}", c.runs] for host, c in found.hosts.items()]
        lines += ["", *table(["host", "beyond its type's", "runs"], own), ""]
    overhead = costs.overhead
    if costs.start_cpu_s:
        lines.append(f"until the first iteration a rank takes {costs.start_cpu_s:.3g} s of CPU time")
    if costs.message_cpu_s:
        hops = costs.reduction_hops
        waits = f", and waits for {hops:.3g} latencies of the slowest link" if hops else ""
        lines.append(
            f"for each of its messages it takes {costs.message_cpu_s * 1e3:.3g} ms of CPU time{waits}"
        )
    if costs.jitter_s:
        lines.append(
            f"at each message ranks wait {BALANCED * costs.jitter_s * 1e3:.3g} ms because their times vary"
        )
    lines.append(
        f"overhead {overhead.constant_s:.3g} s {overhead.per_row_s:+.3g} s·size {overhead.per_rank_s:+.3g} s·P "
        f"{overhead.per_rank2_s:+.3g} s·P² ± {overhead.error_s:.2g} s ({overhead.source})"
    )
    return lines
