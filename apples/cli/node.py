"""`apples node`: the node manager of a host. Nothing is decided here."""

import signal
from pathlib import Path

import click

from nws.base.command import FILE
from nws.base.detach import service
from nws.base.paths import local_host


@click.command()
@click.option("--name", metavar="HOST", help="Name of this node (default: the host's).")
@click.option(
    "--cpus",
    metavar="LIST",
    help="CPUs of the node, as 0-3; its processes are pinned to them (default: all).",
)
@click.option("--manager", metavar="HOST:PORT", help="The machine manager, for policies that have one.")
@click.option(
    "--policy",
    metavar="NAME",
    help="fcs (default), gang, batch; without a manager message-driven, spin-block, uncoordinated.",
)
@click.option("--slice", "slice_text", metavar="TIME", help="Own time slice of message-driven (default 15s).")
@click.option(
    "--gmet", metavar="TIME", help="Guaranteed minimum execution time of message-driven (default 5s)."
)
@click.option("--key", type=FILE, help="File of mode 0600: this node's key or the manager's.")
@click.option(
    "--freezer",
    type=click.Choice(["signals", "cgroup", "auto"]),
    help="How processes are stopped (default signals); auto: by control groups where they may be used.",
)
@click.option("--socket", type=FILE, help="Where processes register.")
@click.option("--config", type=FILE, help="Settings (YAML), as in configs/sharing.yaml.")
@click.option(
    "--everybody",
    is_flag=True,
    help="Serve all users of this host (root only), as always at a socket in /run/apples.",
)
@click.option("--while-needed", is_flag=True, help="End when nothing is registered any more.")
@service(lambda options: "apples-node")
def node(
    name: str | None,
    cpus: str | None,
    manager: str | None,
    policy: str | None,
    slice_text: str | None,
    gmet: str | None,
    key: Path | None,
    freezer: str | None,
    socket: Path | None,
    config: Path | None,
    everybody: bool,
    while_needed: bool,
) -> int:
    """Run and stop the registered processes of this host, so that their jobs are coscheduled.

    Ends on TERM and INT, with everything running. Also whatever kills it, no process stays stopped.
    """
    from apples.daemons.ipc.eventloop import become_realtime
    from apples.daemons.nodedaemon import PRIORITY, NodeDaemon
    from apples.daemons.paths import read_node_key, serving_socket, shared_machine
    from apples.daemons.settings import NodeSettings, address_text, parse_cpus, settings_of
    from apples.monitoring.names import check_job
    from nws.base.notes import note

    sharing = settings_of(
        config, manager=manager, policy=policy, slice_text=slice_text, gmet=gmet, key=key, freezer=freezer
    )
    sharing.check_node()
    called = check_job(name or local_host(), what="--name")
    secret = read_node_key(sharing.needed_key(), called) if sharing.policy.coordinated else None
    machine = None
    if while_needed and secret is not None and sharing.manager is not None:
        machine = shared_machine(address_text(sharing.manager), sharing.needed_key())
    settings = NodeSettings(
        name=called,
        sharing=sharing,
        socket=serving_socket(called, socket),
        cpus=None if cpus is None else parse_cpus(cpus),
        key=secret,
        everybody=everybody,
        while_needed=while_needed,
        machine=machine,
    )
    daemon = NodeDaemon(settings, log=note, realtime=sharing.realtime and become_realtime(PRIORITY))
    return 130 if daemon.run() == signal.SIGINT else 0
