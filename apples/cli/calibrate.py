"""`apples calibrate`: measure the benchmarks of an application anew, and show what finished runs have taught."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command()
@click.argument("size", type=click.IntRange(min=1), default=64)
@click.option("-a", "--app", default="mhd3d", show_default=True, help="Application: mhd3d, heat or jacobi2d.")
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Option of the application."
)
@click.option("--show", is_flag=True, help="Measure nothing; only show what is known.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def calibrate(size: int, app: str, settings: tuple[str, ...], show: bool, as_json: bool) -> None:
    """Measure seconds per row on this machine and fit the overhead from the history.

    What a row costs depends on how much of a slab stays in the caches, so benchmarks are made for runs near SIZE
    (default 64). The benchmarks are kept and used by every later run; each finished run corrects them and the overhead.
    """
    from apples import applications
    from apples.calibration import corrections
    from apples.cli.assemble import parse_settings
    from apples.cli.console import Console
    from apples.cli.places import open_benchmarks, open_history
    from apples.cli.report import table
    from apples.costing import Application, Costing
    from apples.worlds import LocalWorld

    template = applications.get(app)
    options = parse_settings(settings)
    template.check(options)
    world, history, store = LocalWorld(), open_history(), open_benchmarks()
    costing = Costing(store, history)
    application = Application(template=template, settings=options, size=size)
    console = Console(quiet=as_json)
    if not show:
        costing.calibrate(world, application, console.note)
    costs = costing.known(world, application)
    key = costing.key(world, application)
    records = history.records(costing.record_key(world, application))
    types = {host.cpu_type: world.machine(host) for host in world.grid.hosts}
    raw = store.costs(key, types)
    factors = {} if raw is None else corrections(raw, records).types
    overhead = costs.overhead
    if as_json:
        document = {
            "version": 1,
            "application": app,
            "key": key,
            "runs": len(records),
            "seconds_per_row": {t: dict(table_) for t, table_ in costs.seconds_per_row.items()},
            "corrections": {t: {"factor": c.factor, "runs": c.runs} for t, c in factors.items()},
            "overhead": asdict(overhead),
        }
        click.echo(json.dumps(document))
        return
    if not costs.seconds_per_row:
        click.echo(
            f"no benchmarks of {app} are kept for runs near {size}; apples calibrate measures them", err=True
        )
    rows = []
    for cpu_type, seconds_per_row in costs.seconds_per_row.items():
        factor = factors[cpu_type].factor if cpu_type in factors else 1.0
        for ranks, seconds in seconds_per_row.items():
            rows.append([cpu_type, str(ranks), f"{seconds * 1e6:.4g} µs", f"{factor:.3f}"])
    click.echo("\n".join(table(["CPU type", "ranks", "a row and iteration", "runs' correction"], rows)))
    click.echo(
        f"overhead {overhead.constant_s:.3g} s {overhead.per_row_s:+.3g} s·size {overhead.per_rank_s:+.3g} s·P "
        f"{overhead.per_rank2_s:+.3g} s·P² ± {overhead.error_s:.2g} s ({overhead.source})"
    )
