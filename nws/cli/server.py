"""`nws server`: serve the weather of many hosts."""

import dataclasses
from pathlib import Path

import click

from nws.base.command import FILE
from nws.base.detach import service


@click.command()
@click.option("--config", "settings", type=FILE, help="Settings file (YAML).")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen at; default: 127.0.0.1:8090; port 0 chooses a free one.",
)
@click.option(
    "--store",
    type=FILE,
    help="File of the measurements; default: service.db in $APPLES_STATE, $XDG_STATE_HOME/apples or "
    "~/.local/state/apples.",
)
@click.option(
    "--check", is_flag=True, help="Check the settings, print the resulting configuration, and exit."
)
@service(lambda options: "nws-server")
@click.pass_context
def server(
    context: click.Context, *, settings: Path | None, listen: str | None, store: Path | None, check: bool
) -> None:
    """Serve the weather of many hosts: name server, memory and forecaster in one process.

    Sensors register and deliver (nws sensor --server URL), clients send queries. The weather page is at /. Ends on
    TERM and Ctrl-C after storing all accepted measurements. The settings are described in docs/weather-service.md.
    """
    from nws.server.setup import prepare
    from nws.service.configfile import load_config
    from nws.service.serviceconfig import ServiceConfig, parse_listen

    config = ServiceConfig() if settings is None else load_config(settings)
    if listen is not None:
        config = dataclasses.replace(config, listen=parse_listen(listen))
    setup = prepare(config, store=store)
    if check:
        for line in setup.lines():
            click.echo(line)
        return
    from nws.server.serve import log_to_stderr, serve

    with log_to_stderr():
        code = serve(setup)
    context.exit(code)
