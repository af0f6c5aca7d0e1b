"""`apples manager`: coordinate the node managers of a machine. Nothing is decided here."""

import signal
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click

from apples.cli.optiongroups import HeadedCommand, given_words, headed, with_options
from apples.cli.serve_queue import QueueBeside, QueueManagerOptions, serve_queue
from nws.base.detach import service
from nws.base.files import write_whole

_nodes = headed("Node managers")
_QUEUE_FIELDS = tuple(each.name for each in fields(QueueManagerOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineManagerOptions:
    """Options of a manager of nodes; `queue` are those of a queue's manager."""

    listen: str | None = _nodes(
        "--listen", metavar="HOST:PORT", help="Where nodes connect, TCP and UDP (default 127.0.0.1:7171)."
    )
    policy: str | None = _nodes("--policy", metavar="NAME", help="fcs (default), gang or batch.")
    slice_text: str | None = _nodes("--slice", metavar="TIME", help="Time slice (default 100ms).")
    mpl: int | None = _nodes(
        "--mpl",
        type=click.IntRange(min=1),
        help="Limit of jobs of one user that share a processor; others wait.",
    )
    multicast: str | None = _nodes(
        "--multicast",
        metavar="GROUP",
        help="Multicast group of the heartbeats, or none (default 239.192.71.71).",
    )
    key: Path | None = _nodes(
        "--key", type=click.Path(path_type=Path), help="File of mode 0600 with the manager's key."
    )
    config: Path | None = _nodes(
        "--config", type=click.Path(path_type=Path), help="Settings (YAML), as in configs/sharing.yaml."
    )
    new_key: Path | None = _nodes(
        "--new-key",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write a new key to FILE, and exit.",
    )
    enrol: str | None = _nodes(
        "--enrol", metavar="NODE", help="Print the key of one node, for a key file of its own, and exit."
    )
    place_file: Path | None = _nodes(
        "--place-file",
        type=click.Path(path_type=Path),
        help="Write HOST:PORT to FILE once the manager listens (for port 0).",
        metavar="FILE",
    )
    while_needed: bool = _nodes("--while-needed", is_flag=True, help="Exit when the last node disconnects.")
    queue: QueueManagerOptions = field(default_factory=QueueManagerOptions)

    @property
    def queue_only(self) -> bool:
        """Return whether the manager keeps a queue and serves no node managers."""
        return self.queue.queue is not None and self.key is self.config is self.new_key is None


def _service_name(given: dict[str, Any]) -> str:
    return "apples-queue" if given["options"].queue_only else "apples-manager"


def _service_processes(given: dict[str, Any]) -> int:
    options: MachineManagerOptions = given["options"]
    return 1 if options.queue_only or options.queue.queue is None else 2


@click.command(cls=HeadedCommand)
@with_options(MachineManagerOptions)
@service(_service_name, parts=_service_processes)
def manager(options: MachineManagerOptions) -> int:
    """Send the time slices of coscheduled jobs to all node managers of a machine; with --queue, keep a queue of jobs.

    Ends on TERM and INT. Running jobs continue uncoordinated then; a queue's jobs are found again at the next start.
    """
    options.queue.check()
    if options.queue_only:
        return serve_queue(options.queue, list(given_words(options, skip=_QUEUE_FIELDS)), say)
    from apples.daemons.managerdaemon import ManagerDaemon
    from apples.daemons.paths import enrolled, new_key, read_manager_key
    from apples.daemons.settings import settings_of

    if options.new_key is not None:
        new_key(options.new_key)
        click.echo(
            f"{options.new_key}: a new key; make each node's own from it with --enrol NODE, or copy it to nodes that "
            "trust each other",
            err=True,
        )
        return 0
    sharing = settings_of(
        options.config,
        listen=options.listen,
        policy=options.policy,
        slice_text=options.slice_text,
        mpl=options.mpl,
        multicast=options.multicast,
        key=options.key,
    )
    if options.enrol is not None:
        click.echo(enrolled(sharing.needed_key(), options.enrol))
        return 0
    secret = read_manager_key(sharing.needed_key())
    sharing.check_manager()
    with ExitStack() as stack:
        follow = {}
        if options.queue.queue is not None:
            follow["counted"] = stack.enter_context(QueueBeside(options.queue)).counted
        daemon = ManagerDaemon(sharing, secret, log=say, while_needed=options.while_needed, **follow)
        if options.place_file is not None:
            write_whole(options.place_file, f"{daemon.place}\n")
        return 130 if daemon.run() == signal.SIGINT else 0


def say(line: str) -> None:
    """Print a line on standard error."""
    click.echo(line, err=True)
