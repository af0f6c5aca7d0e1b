"""`apples calibrate`: measure the benchmarks of an application, and show the corrections learned from runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from apples import applications
from apples.cli.optiongroups import HeadedCommand, parse_settings, with_options
from apples.cli.runoptions import PoolOptions
from apples.errors import ConfigError
from nws.base.records import document_of

if TYPE_CHECKING:
    from apples.cli.console import Console
    from apples.costs.posterior import Learned
    from apples.model.template import Application, Costs
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
    default=applications.names()[0],
    show_default=True,
    help=f"Application: {', '.join(applications.names())}, or an application file.",
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
    from apples.costs.benchmark import Measuring
    from apples.costs.costs import training_runs
    from apples.costs.evidence import load
    from apples.costs.posterior import learn
    from apples.costs.store import open_history
    from apples.model.runrequest import RunRequest
    from apples.run.program import find_template

    template = find_template(app, None, None)
    chosen = parse_settings(settings)
    template.check(chosen)
    console = Console(quiet=as_json)
    platform, history = measured_platform(options, template, console), open_history(console.note)
    request = RunRequest(template=template, settings=chosen, size=size)
    evidence = load(platform, request, history)
    slab = evidence.slab()
    if not show:
        measuring = Measuring(platform=platform, request=request, history=history, notify=console.note)
        evidence = measuring.calibrate(evidence, slab)
    same, others = training_runs(evidence, slab)
    by_runs = learn(same, others)
    costs = by_runs.costs.at(slab.height)
    if as_json:
        runs = sum(len(of.runs) for of in (same, *others))
        known = {"version": 1, "application": app, "key": evidence.key}
        click.echo(json.dumps(known | _document(costs, by_runs, runs)))
        return
    if not costs.seconds_per_row:
        click.echo(
            f"no benchmarks of {app} are kept for runs near {size}; apples calibrate measures them", err=True
        )
    click.echo("\n".join(_lines(costs, by_runs)))


def measured_platform(options: PoolOptions, template: Application, console: Console) -> Platform:
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
        platform.prepare(Preparation(warm_command=template.warm, program_files=files))
        platform.snapshot(console.note)
    return platform


def _document(costs: Costs, by_runs: Learned, runs: int) -> dict[str, Any]:
    return {
        "runs": runs,
        "seconds_per_row": {t: dict(table_) for t, table_ in costs.seconds_per_row.items()},
        "corrections": {t: {"factor": c.factor, "runs": c.runs} for t, c in by_runs.types.items()},
        "hosts": {h: {"factor": c.factor, "runs": c.runs} for h, c in by_runs.hosts.items()},
        "overhead": {name: value for name, value in asdict(costs.overhead).items() if name != "covariance"},
        **document_of(costs, "start_cpu_s", "message_cpu_s", "reduction_hops"),
    }


def _lines(costs: Costs, by_runs: Learned) -> list[str]:
    from apples.cli.report import table

    rows = []
    for cpu_type, seconds_per_row in costs.seconds_per_row.items():
        factor = by_runs.types[cpu_type].factor if cpu_type in by_runs.types else 1.0
        for ranks, seconds in seconds_per_row.items():
            rows.append([cpu_type, ranks, f"{seconds * 1e6:.4g} µs", f"{factor:.3f}"])
    lines = table(["CPU type", "ranks", "a row and iteration", "runs' correction"], rows)
    if len(by_runs.hosts) > 1:
        host_rows = [[host, f"{c.factor:.3f}", c.runs] for host, c in by_runs.hosts.items()]
        lines += ["", *table(["host", "beyond its type's", "runs"], host_rows), ""]
    overhead = costs.overhead
    if costs.start_cpu_s:
        lines.append(f"until the first iteration a rank takes {costs.start_cpu_s:.3g} s of CPU time")
    if costs.message_cpu_s:
        hops = costs.reduction_hops
        waits = f", and waits for {hops:.3g} latencies of the slowest link" if hops else ""
        lines.append(
            f"for each of its messages it takes {costs.message_cpu_s * 1e3:.3g} ms of CPU time{waits}"
        )
    lines.append(
        f"overhead {overhead.constant_s:.3g} s {overhead.per_row_s:+.3g} s·size {overhead.per_rank_s:+.3g} s·P "
        f"{overhead.per_rank2_s:+.3g} s·P² ± {overhead.error_s:.2g} s ({overhead.source})"
    )
    return lines
