"""`nws forget HOST`: remove a host from a service; needs the admin role there.

`nws token`: make a token file for the server and its clients.
"""

from pathlib import Path

import click

from nws.base.command import FILE
from nws.base.errors import UsageError
from nws.cli.forecastsource import TIMEOUT_S, server_options
from nws.client.endpoint import Endpoint


@click.command()
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True)
@server_options
def forget(*, hosts: tuple[str, ...], server: str | None, token_file: Path | None, ca: Path | None) -> None:
    """Make a service forget each HOST: its name is free again, and its series are hidden.

    Its measurements stay in the service's store for the normal retention period. Needs an admin token if the
    service has tokens. Stop a sensor on the host first: it would register again.
    """
    from nws.client.remote import ServiceClient

    if not server:
        raise UsageError("name the service with --server URL or NWS_SERVER")
    endpoint = Endpoint.of(server, token_file=token_file, ca=ca)
    with ServiceClient.at(endpoint, timeout_s=TIMEOUT_S) as client:
        for host in hosts:
            client.forget(host)
            click.echo(f"{client.url}: forgot {host}", err=True)


@click.command()
@click.argument("file", type=FILE)
def token(file: Path) -> None:
    """Make a random token in FILE (mode 0600), which must not exist yet.

    Name the file under `tokens:` in the server's settings, and copy it to the hosts that need it (--token-file).
    """
    from nws.server.tokens import create_token

    create_token(file)
    click.echo(f"nws: made {file}; its role is the one that lists it in the server's settings", err=True)
