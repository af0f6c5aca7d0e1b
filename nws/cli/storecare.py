"""`nws check`: read all of a store, and print its damage.

`nws backup FILE`: copy a store while it is in use.

`nws repair`: keep the sound rows of a damaged store.
"""

from pathlib import Path

import click

from nws.base.command import FILE
from nws.base.errors import StoreDamaged
from nws.base.records import document_of
from nws.base.wording import counted
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
    from nws.memory.salvage import check as look
    from nws.service.batteryfile import battery_file, read

    path = existing(store)
    with Memory(path) as memory:
        report = look(memory)
    try:
        read(battery_file(path))
    except StoreDamaged as error:
        report.damage.append(f"state of the forecasters: {error}")
    if as_json:
        echo_json({"store": str(path), **document_of(report, "series", "samples", "damage")})
    else:
        for line in report.damage:
            click.echo(line)
        click.echo(f"{path}: {counted(report.samples, 'sound sample')} of {report.series} series")
    if report.damage:
        context.exit(StoreDamaged.exit_code)


@click.command()
@click.argument("file", type=FILE)
@store_option
def backup(*, file: Path, store: Path | None) -> None:
    """Copy the store to FILE, as it is at one instant; a server may use it meanwhile.

    FILE appears whole or not at all, and replaces an older one. To restore it, see docs/weather-service.md.
    """
    from nws.memory import Memory
    from nws.memory.database import back_up

    path = existing(store)
    with Memory(path) as memory:
        size = back_up(memory.database, file)
    click.echo(f"{file}: {size} bytes", err=True)


@click.command()
@store_option
@json_option
def repair(*, store: Path | None, as_json: bool) -> None:
    """Replace the store by its sound rows, and print the losses. No program may use it meanwhile.

    The damaged file is kept beside it, as NAME.damaged-N; so are the last two older ones. Roll-ups are made anew from
    samples where they can be. It needs room for a second file.
    """
    from nws.memory.database import store_lock
    from nws.memory.salvage import repair as salvage

    path = existing(store)
    with store_lock(path):
        report = salvage(path)
    if as_json:
        kept = document_of(report, "series", "samples", "lost")
        echo_json({"store": str(path), **kept, "damaged_file": report.aside})
        return
    for line in report.lost:
        click.echo(f"lost: {line}")
    click.echo(f"{path}: {report.samples} samples of {report.series} series; the old file is {report.aside}")
