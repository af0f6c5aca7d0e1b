"""`apples manager`: beats time for the node managers of a machine. Nothing is decided here."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from apples.cli.serve_queue import QueueBeside, check_queue_options, queue_only, queue_options, serve_queue
from nws.base.detach import service
from nws.base.files import write_whole


@click.command()
@click.option(
    "--listen", metavar="HOST:PORT", help="Where nodes connect, TCP and UDP (default 127.0.0.1:7171)."
)
@click.option("--policy", metavar="NAME", help="fcs (default), gang or batch.")
@click.option("--slice", "slice_text", metavar="TIME", help="Time slice (default 100ms).")
@click.option(
    "--mpl", type=click.IntRange(min=1), help="At most so many jobs share a processor; others wait."
)
@click.option(
    "--multicast", metavar="GROUP", help="Multicast group of the beats, or none (default 239.192.71.71)."
)
@click.option("--key", type=click.Path(path_type=Path), help="File of mode 0600 with the key nodes share.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="Settings (YAML), as in configs/sharing.yaml."
)
@click.option(
    "--new-key", type=click.Path(path_type=Path), metavar="FILE", help="Make a new key there, and end."
)
@click.option(
    "--place-file",
    type=click.Path(path_type=Path),
    help="Write HOST:PORT there once it listens (for port 0).",
)
@click.option("--while-needed", is_flag=True, help="End when the last node has gone.")
@queue_options
@service(
    lambda options: "apples-queue" if queue_only(options) else "apples-manager",
    parts=lambda options: 1 if queue_only(options) or options["queue"] is None else 2,
)
def manager(
    listen: str | None,
    policy: str | None,
    slice_text: str | None,
    mpl: int | None,
    multicast: str | None,
    key: Path | None,
    config: Path | None,
    new_key: Path | None,
    place_file: Path | None,
    while_needed: bool,
    **queue: Any,
) -> int:
    """Say to all node managers of a machine, slice by slice, whose turn it is; with --queue, keep a queue of jobs.

    Ends on TERM and INT; jobs run on then, as their operating systems like, and those of a queue are found again.
    """
    check_queue_options(queue)
    if queue_only({**queue, "key": key, "config": config, "new_key": new_key}):
        given: dict[str, object] = {
            "--listen": listen,
            "--policy": policy,
            "--slice": slice_text,
            "--mpl": mpl,
        }
        given |= {
            "--multicast": multicast,
            "--place-file": place_file,
            "--while-needed": while_needed or None,
        }
        return serve_queue(queue, [name for name, value in given.items() if value is not None], say)
    from apples.daemons.managerdaemon import ManagerDaemon
    from apples.daemons.paths import new_key as make_key
    from apples.daemons.paths import read_key
    from apples.daemons.settings import settings_of

    if new_key is not None:
        make_key(new_key)
        click.echo(
            f"{new_key}: a new key; copy it to every node, readable by its node manager only", err=True
        )
        return 0
    sharing = settings_of(
        config, listen=listen, policy=policy, slice_text=slice_text, mpl=mpl, multicast=multicast, key=key
    )
    secret = read_key(sharing.needed_key())
    sharing.check_manager()
    with ExitStack() as stack:
        follow = {}
        if queue["queue"] is not None:
            follow["counted"] = stack.enter_context(QueueBeside(queue)).counted
        daemon = ManagerDaemon(sharing, secret, log=say, while_needed=while_needed, **follow)
        if place_file is not None:
            write_whole(place_file, f"{daemon.place}\n")
        return 130 if daemon.run() == signal.SIGINT else 0


def say(line: str) -> None:
    """One line for people."""
    click.echo(line, err=True)
