"""`apples app new` and `apples app check`: write the file that describes your program, and measure the program."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.cli.calibrate import POOL, measured_platform
from apples.cli.optiongroups import HeadedCommand, parse_settings, with_options
from apples.cli.runoptions import PoolOptions
from apples.errors import ConfigError
from nws.base.command import LazyGroup

if TYPE_CHECKING:
    from apples.model.template import Benchmark

app = LazyGroup(
    name="app",
    help="Describe your own MPI program in an application file, and measure it.",
    package="apples.cli",
    lazy={
        "new": "Write a commented application file.",
        "check": "Check an application file and measure its program.",
        "include": "Print the directory of apples.h and apples.f90.",
    },
    modules=dict.fromkeys(("new", "check", "include"), "app"),
)

#: A commented application file for the program @NAME@.
_NEW = Path(__file__).with_name("newapp.yaml")


@click.command(cls=HeadedCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def new(file: Path) -> None:
    """Write a commented application file to FILE, which must not exist; change its command, then check it."""
    name = file.stem if file.stem[:1].isalnum() else "program"
    try:
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(_NEW.read_text(encoding="utf-8").replace("@NAME@", name))
    except FileExistsError:
        raise ConfigError(f"{file}: the file exists already; give another name") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
    click.echo(f"{file}: change the command to that of your program, then: apples app check {file}")


@click.command(cls=HeadedCommand)
def include() -> None:
    """Print the directory of apples.h, apples.f90 and apples_f.c: mpicc -I"$(apples app include)"."""
    click.echo(Path(__file__).parent.with_name("client") / "include")


@click.command(cls=HeadedCommand)
@click.argument("file")
@click.argument("size", type=click.IntRange(min=1), required=False)
@click.option(
    "-s", "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Option of the application."
)
@with_options(PoolOptions, only=POOL)
@click.option(
    "-t", "--time-limit", help="End a short run that takes longer, and longer than expected (default 60 s)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def check(
    file: str,
    size: int | None,
    settings: tuple[str, ...],
    time_limit: str | None,
    as_json: bool,
    options: PoolOptions,
) -> None:
    """Check the application FILE, run its program briefly, and print the measurements.

    The measurements are kept for runs near SIZE rows (default: the file's). They are in CPU time, so other load on
    the host does not matter. The program runs in a copy of its directory.
    """
    from apples.cli.console import Console
    from apples.costs.benchmark import Measuring
    from apples.costs.evidence import load
    from apples.costs.store import open_history
    from apples.model.runrequest import RunRequest
    from apples.model.template import SHORT_RUN_S
    from apples.run.program import find_template
    from nws.base.durations import parse_period

    limit_s = SHORT_RUN_S if time_limit is None else parse_period(time_limit, what="--time-limit")
    template = find_template(file, None, None)
    if not template.measured_by_monitor:
        raise ConfigError(f"{file}: {template.name} is measured by `apples calibrate -a {file}`")
    chosen = parse_settings(settings)
    template.check(chosen)
    console = Console(quiet=as_json)
    platform = measured_platform(options, template, console)
    rows = size or template.short_size
    request = RunRequest(template=template, settings=chosen, size=rows)
    history = open_history(console.note)
    evidence = load(platform, request, history)
    slab = evidence.slab()
    measuring = Measuring(
        platform=platform,
        request=request,
        history=history,
        notify=console.note,
        running=console.running,
        limit_s=limit_s,
    )
    with console.never_silent():
        measured = measuring.calibrate(evidence, slab).benchmarks.get(slab.rows, {})
    by_type = {cpu_type: list(of.benchmarks) for cpu_type, of in measured.items()}
    if as_json:
        click.echo(json.dumps(_document(file, template.name, rows, by_type)))
    else:
        click.echo("\n".join(_lines(template.name, rows, evidence.workload.row, by_type)))


def _document(file: str, name: str, size: int, by_type: dict[str, list[Benchmark]]) -> dict[str, Any]:
    benchmarks = {cpu_type: [asdict(b) for b in of] for cpu_type, of in by_type.items()}
    return {"version": 1, "application": name, "file": file, "size": size, "benchmarks": benchmarks}


def _lines(name: str, size: int, row: str, by_type: dict[str, list[Benchmark]]) -> list[str]:
    from apples.cli.report import seconds, table

    rows = [
        [
            cpu_type,
            b.ranks,
            f"{b.seconds_per_row * 1e6:.4g} µs",
            seconds(b.startup_s),
            seconds(b.setup_cpu_s),
            None if b.messages is None else f"{b.messages:.3g}",
        ]
        for cpu_type, of in by_type.items()
        for b in of
    ]
    header = ["CPU type", "ranks", f"CPU time of a {row}", "start-up", "setup", "messages"]
    lines = table(header, rows)
    alone = [b for of in by_type.values() for b in of if b.ranks == 1]
    lines.append(f"CPU time of a {row} and messages to a neighbour are of one iteration")
    lines += [
        f"memory: {b.bytes_per_row / 1e3:.4g} kB a {row}, {b.bytes_fixed / 1e6:.4g} MB a rank beside them"
        for b in alone[:1]
        if b.bytes_per_row > 0
    ]
    handled = [b.message_cpu_s for b in alone if b.message_cpu_s is not None]
    if handled:
        lines.append(f"a message to another host: {max(handled) * 1e6:.3g} µs of CPU time")
    lines.append(f"{name} can be run: apples-run {size} --app FILE")
    return lines
