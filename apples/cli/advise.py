"""`apples advise SIZE`: numbers of hosts, their names, ends and costs, as a table, JSON or a plot."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import HeadedCommand, Problems, with_options
from apples.cli.pieces import PLANNING
from apples.cli.runoptions import OutputOptions, RunOptions
from apples.errors import ConfigError
from nws.base.wording import counted

if TYPE_CHECKING:
    from apples.model.grid import Snapshot
    from apples.model.plan import Plan
    from apples.model.runrequest import RunRequest
    from apples.model.template import Costs, Workload
    from apples.planning.planningoptions import PlanningOptions
    from apples.run.agent import Agent

    _Inputs = tuple[Snapshot, Workload, Costs, PlanningOptions]


@click.command(cls=HeadedCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("size", type=click.IntRange(min=1))
@with_options(RunOptions, only=PLANNING)
@click.option("--by", metavar="TIME", help="The run must end by 18:00, or within 90 (s), 15m or 2h.")
@click.option(
    "--offers",
    metavar="FILE",
    help="Advise on the hosts of this grid file as if idle: instance types on offer, with their prices under limits.",
)
@click.option("--plot", metavar="FILE", help="Also write the table as a plot (PNG, SVG or PDF).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def advise(
    size: int, by: str | None, offers: str | None, plot: str | None, as_json: bool, options: RunOptions
) -> None:
    """Print the plans for SIZE rows of which none is both slower and dearer, and the cheapest that ends in time.

    Cost is money if hosts have prices (--price, or limits of the grid file), host-hours otherwise.
    """
    from apples.cli.assemble import assemble
    from apples.cli.console import Console
    from apples.planning.advice import advice, cheapest_by

    now, problems = time.time(), Problems()
    cut = options.plan.cut
    left_s = None if by is None else problems.collect(lambda: seconds_until(by, now))
    if offers is not None:
        if options.pool.grid_file is not None:
            problems.append("--grid and --offers both name hosts; give one of them")
        pool = replace(options.pool, grid_file=offers, mock=True)
        options = replace(options, pool=pool, plan=replace(options.plan, cut=None))
    options = replace(options, output=OutputOptions(dry_run=True))
    assembled = problems.collect(lambda: assemble(size, options, Console()))
    if problems or assembled is None:
        raise ConfigError(problems)
    agent, request = assembled
    inputs = _decided(agent, request) if offers is None else _offered(offers, request, cut)
    plans = tuple(
        agent.calibrated(plan, inputs[0].over(plan.horizon_s))[0] if offers is None else _as_stated(plan)
        for plan in advice(*inputs)
    )
    chosen = None if left_s is None else cheapest_by(plans, left_s)
    if as_json:
        click.echo(
            json.dumps({"size": size, "offers": [_document(o) for o in plans], "chosen": _document(chosen)})
        )
    else:
        click.echo("\n".join(_lines(plans, now, chosen, by)))
    if plot is not None:
        _plot(plans, Path(plot), size)


def seconds_until(by: str, now: float) -> float:
    """Return the seconds from `now` (since the epoch) to a time of day such as 18:00, or of a duration."""
    from nws.base.durations import parse_period

    hours, colon, minutes = by.partition(":")
    if not (colon and hours.isdecimal() and len(minutes) == 2 and minutes.isdecimal()):
        return parse_period(by, what="--by")
    if int(hours) > 23 or int(minutes) > 59:
        raise ConfigError(f"--by {by} is no time of day; legal are 00:00 to 23:59")
    today = time.localtime(now)
    at = time.mktime((*today[:3], int(hours), int(minutes), 0, *today[6:8], -1))
    return at - now if at > now else at - now + 86400


def _decided(agent: Agent, request: RunRequest) -> _Inputs:
    """Return the inputs of a plan on the hosts as they are now."""
    from apples.planning.planningoptions import planning_options
    from apples.run.loop import AttemptLoop

    decision = AttemptLoop(agent, request).decide()
    return decision.snapshot, decision.workload, decision.costs, planning_options(request)


def _offered(offers: str, request: RunRequest, cut: str | None) -> _Inputs:
    """Return the inputs of a plan on hosts that are not there yet: idle, and as fast as stated."""
    from apples.cli.pool import open_grid_file
    from apples.model.grid import Snapshot
    from apples.planning.planningoptions import planning_options

    file = open_grid_file(offers)
    costs = None if file is None else file.applications.get(request.template.name)
    if file is None or costs is None or costs.costs is None:
        raise ConfigError(
            f"{offers}: no seconds_per_row of {request.template.name}; offers are hosts that cannot be measured, so "
            f"state them under applications"
        )
    workload = request.template.workload(request.size, request.settings)
    request = replace(request, overrides={**request.overrides, "cut": cut or "auto"})
    return Snapshot.nominal(file.grid), workload, costs.costs, planning_options(request)


def _as_stated(plan: Plan) -> Plan:
    """Return a plan whose range holds if costs were stated to a tenth, as one standard deviation."""
    from apples.costs.runs import PRIOR_SPREAD
    from apples.planning.bounds import HIGH

    spread_s = NormalDist().inv_cdf(HIGH) * PRIOR_SPREAD * plan.predicted_s
    low_s, high_s = plan.predicted_s - spread_s, plan.predicted_s + spread_s
    return replace(plan, low_s=min(plan.low_s, low_s), high_s=max(plan.high_s, high_s))


def _document(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    stated = ("hosts", "predicted_s", "low_s", "high_s", "cost", "host_hours")
    return {"ranks": len(plan.assignments), **{name: getattr(plan, name) for name in stated}}


def _lines(offers: tuple[Plan, ...], now: float, chosen: Plan | None, by: str | None) -> list[str]:
    """Return the table, and the plan to take if there is a time."""
    from apples.cli.report import seconds, table
    from nws.base.hostlist import fold

    priced = offers[0].cost is not None
    rows = [
        [
            len(o.hosts),
            len(o.assignments),
            seconds(o.predicted_s),
            f"{seconds(o.low_s)} … {seconds(o.high_s)}",
            _moment(now + o.predicted_s, now),
            f"{o.host_hours:.3g}",
            *([f"{o.cost:.4g}"] if priced else []),
            fold(o.hosts),
        ]
        for o in offers
    ]
    header = ["hosts", "ranks", "takes", "likely", "ends", "host-hours"]
    lines = table([*header, *(["cost"] if priced else []), "which"], rows)
    if by is not None and chosen is None:
        lines.append(f"no plan probably ends by {by}")
    elif chosen is not None:
        lines.append(
            f"cheapest that probably ends by {by}: {counted(len(chosen.hosts), 'host')}, {fold(chosen.hosts)}"
        )
    return lines


def _moment(at: float, now: float) -> str:
    """Return a time of day, with the date if it is not today's."""
    then = time.localtime(at)
    return time.strftime("%H:%M:%S" if then[:3] == time.localtime(now)[:3] else "%a %d %b %H:%M", then)


def _plot(offers: tuple[Plan, ...], path: Path, size: int) -> None:
    """Write cost against length, with the likely range of each length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    priced = offers[0].cost is not None
    cost = [o.host_hours if o.cost is None else o.cost for o in offers]
    ends = [o.predicted_s for o in offers]
    ranges = [[o.predicted_s - o.low_s for o in offers], [o.high_s - o.predicted_s for o in offers]]
    axes.errorbar(ends, cost, xerr=ranges, marker="o", capsize=3)
    for o, x, y in zip(offers, ends, cost, strict=True):
        axes.annotate(f"{len(o.hosts)}", (x, y), textcoords="offset points", xytext=(5, 5))
    axes.set_xlabel("predicted length in s (bars: likely range)")
    axes.set_ylabel("cost" if priced else "host-hours")
    axes.set_title(f"Plans for {size} rows; labels are numbers of hosts")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--plot {path}: {why}") from None
