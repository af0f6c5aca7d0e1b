"""`apples node`: the node manager of a host. Nothing is decided here."""

import signal
from pathlib import Path

import click

from apples.cli.optiongroups import option, options_record, with_options
from nws.base.command import FILE
from nws.base.detach import service
from nws.base.paths import local_host
from nws.base.records import document_of


@options_record
class NodeOptions:
    """Options of a node manager.

    name : Name of this node (default: the host's).
    cpus : CPUs of the node, as 0-3; its processes are pinned to them (default: all).
    manager : The machine manager, for policies that have one.
    policy : fcs (default), gang, batch; without a manager message-driven, spin-block, uncoordinated.
    slice_text : Own time slice of message-driven (default 15s).
    gmet : Guaranteed minimum execution time of message-driven (default 5s).
    key : File of mode 0600: this node's key or the manager's.
    freezer : How processes are stopped (default signals); auto: by control groups where they may be used.
    socket : Where processes register.
    config : Settings (YAML), as in configs/sharing.yaml.
    everybody : Serve all users of this host (root only), as always at a socket in /run/apples.
    while_needed : End when nothing is registered any more.
    """

    name: str | None = option("--name", metavar="HOST")
    cpus: str | None = option("--cpus", metavar="LIST")
    manager: str | None = option("--manager", metavar="HOST:PORT")
    policy: str | None = option("--policy", metavar="NAME")
    slice_text: str | None = option("--slice", metavar="TIME")
    gmet: str | None = option("--gmet", metavar="TIME")
    key: Path | None = option("--key", type=FILE)
    freezer: str | None = option("--freezer", type=click.Choice(["signals", "cgroup", "auto"]))
    socket: Path | None = option("--socket", type=FILE)
    config: Path | None = option("--config", type=FILE)
    everybody: bool = option("--everybody", is_flag=True)
    while_needed: bool = option("--while-needed", is_flag=True)


@click.command()
@with_options(NodeOptions)
@service(lambda given: "apples-node")
def node(options: NodeOptions) -> int:
    """Run and stop the registered processes of this host, so that their jobs are coscheduled.

    Ends on TERM and INT, with everything running. Also whatever kills it, no process stays stopped.
    """
    from apples.daemons.ipc.eventloop import become_realtime
    from apples.daemons.nodedaemon import PRIORITY, NodeDaemon
    from apples.daemons.paths import read_node_key, serving_socket, shared_machine
    from apples.daemons.settings import NodeSettings, address_text, parse_cpus, settings_of
    from apples.monitoring.names import check_job
    from nws.base.notes import note

    named = document_of(options, "manager", "policy", "slice_text", "gmet", "key", "freezer")
    sharing = settings_of(options.config, **named)
    sharing.check_node()
    called = check_job(options.name or local_host(), what="--name")
    secret = read_node_key(sharing.needed_key(), called) if sharing.policy.coordinated else None
    machine = None
    if options.while_needed and secret is not None and sharing.manager is not None:
        machine = shared_machine(address_text(sharing.manager), sharing.needed_key())
    settings = NodeSettings(
        name=called,
        sharing=sharing,
        socket=serving_socket(called, options.socket),
        cpus=None if options.cpus is None else parse_cpus(options.cpus),
        key=secret,
        everybody=options.everybody,
        while_needed=options.while_needed,
        machine=machine,
    )
    daemon = NodeDaemon(settings, log=note, realtime=sharing.realtime and become_realtime(PRIORITY))
    return 130 if daemon.run() == signal.SIGINT else 0
