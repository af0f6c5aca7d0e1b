"""`nws sensor`: run the daemon of one host until a signal ends it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from nws.base.command import FILE
from nws.base.detach import service
from nws.base.notes import note
from nws.base.paths import local_host, state_dir

if TYPE_CHECKING:
    from nws.daemon.daemon import SensorDaemon


@click.command()
@click.option(
    "--server", required=True, envvar="NWS_SERVER", help="Address of the service, http(s)://HOST:PORT."
)
@click.option("--host", help="Name of this host on the service; default: its node name.")
@click.option("--site", help="Site this host belongs to; hosts of a site probe each other.")
@click.option(
    "--address",
    metavar="ADDR|IFACE",
    help="Address or interface for answering and sending probes; default: the one that MPI would use.",
)
@click.option(
    "--echo-port",
    type=click.IntRange(0, 65535),
    help="Port for answering probes; default: the first free one of 8091 to 8106. 0 takes any free one.",
)
@click.option(
    "--token-file",
    type=FILE,
    envvar="NWS_TOKEN_FILE",
    help="File of mode 0600 with a token of the role `write`; SIGHUP reads it again.",
)
@click.option("--ca", type=FILE, envvar="NWS_CA", help="Certificates to trust, for https.")
@click.option(
    "--spool",
    type=FILE,
    help="File for undelivered measurements; default: in $APPLES_STATE, $XDG_STATE_HOME/apples or "
    "~/.local/state/apples.",
)
@click.option(
    "--spool-size",
    type=click.IntRange(1, 65536),
    default=64,
    show_default=True,
    help="Maximum size of that file in MB; beyond it the oldest measurements are dropped.",
)
@click.option("--for", "lasting", type=click.FloatRange(min=0), help="End after so many seconds.")
@service(lambda options: "nws-sensor", patience_s=30.0)
@click.pass_context
def sensor(
    context: click.Context,
    /,
    *,
    host: str | None,
    spool_size: int,
    lasting: float | None,
    **settings: Any,
) -> None:
    """Measure this host's CPU, memory and network, and deliver to a weather service.

    Undelivered measurements wait on disk. Ends on TERM and INT, and reports the number of runs by outcome.
    """
    from nws.daemon.daemon import SensorDaemon, SensorSettings, run_until_signal

    prepared = SensorSettings(
        host=host or local_host(), state=state_dir(), spool_bytes=spool_size << 20, **settings
    )
    with SensorDaemon(prepared, say=note) as daemon:
        try:
            _, ended_by = run_until_signal(daemon, lasting)
        finally:
            _account(daemon)
    if ended_by == signal.SIGINT:
        context.exit(130)


def _account(daemon: SensorDaemon) -> None:
    for name, tally in daemon.tallies().items():
        note(f"{name}: {tally}")
    note(f"{len(daemon.spool)} samples wait in {daemon.spool.path}; {daemon.lost} lost")
