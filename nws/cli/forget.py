"""`nws forget HOST`: remove a host from a service; needs the admin role there."""

from pathlib import Path

import click

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
