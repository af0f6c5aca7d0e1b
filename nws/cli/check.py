"""`nws check`: read all of a store, and print its damage."""

from pathlib import Path

import click

from nws.base.errors import StoreDamaged
from nws.cli.common import echo_json, existing, json_option, store_option


@click.command()
@store_option
@json_option
@click.pass_context
def check(context: click.Context, *, store: Path | None, as_json: bool) -> None:
    """Read all of the store, and print its damage: series, time and losses.

    A server may use the store meanwhile. Exit code 4 if anything is damaged; `nws repair` then keeps the rest.
    """
    from nws.memory import Memory
    from nws.memory.checking import check as look
    from nws.service.batteryfile import battery_file, read

    path = existing(store)
    with Memory(path) as memory:
        report = look(memory)
    try:
        read(battery_file(path))
    except StoreDamaged as error:
        report.damage.append(f"state of the forecasters: {error}")
    if as_json:
        echo_json(
            {"store": str(path), "series": report.series, "samples": report.samples, "damage": report.damage}
        )
    else:
        for line in report.damage:
            click.echo(line)
        click.echo(f"{path}: {report.samples} sound samples of {report.series} series")
    if report.damage:
        context.exit(StoreDamaged.exit_code)
