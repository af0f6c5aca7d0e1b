"""`nws token`: make a token file for the server and its clients."""

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def token(file: Path) -> None:
    """Make a random token in FILE (mode 0600), which must not exist yet.

    Name the file under `tokens:` in the server's settings, and copy it to the hosts that need it (--token-file).
    """
    from nws.server.tokens import create_token

    create_token(file)
    click.echo(f"nws: made {file}; its role is the one that lists it in the server's settings", err=True)
