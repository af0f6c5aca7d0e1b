"""`nws backup FILE`: copy a store while it is in use."""

from pathlib import Path

import click

from nws.cli.common import existing, store_option


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
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
