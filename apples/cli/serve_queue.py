"""`apples manager --queue`: its options, and the queue's manager made of them. Nothing is decided here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from apples.livequeue.hosts import Machine
    from apples.livequeue.server import QueueServer

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--queue",
        is_flag=False,
        flag_value="",
        metavar="[FILE]",
        help="Keep a queue of jobs, in FILE (default $APPLES_STATE/queue/jobs.db).",
    ),
    click.option(
        "--procs",
        type=click.IntRange(min=1),
        help="Processors of this machine that the queue gives out (default: all).",
    ),
    click.option(
        "-H",
        "--host",
        "hosts",
        metavar="LIST",
        help="Hosts it gives out instead, with slots (a:4,node[1-8]:2).",
    ),
    click.option(
        "--hostfile", metavar="FILE", help="The same from a file, one 'host slots=4' or 'host:4' a line."
    ),
    click.option(
        "--queue-config", metavar="FILE", help="Policy and estimates (YAML), as in configs/queue.yaml."
    ),
    click.option("--grace", metavar="TIME", help="From TERM to KILL for jobs that must end (default 10s)."),
    click.option("--socket", type=click.Path(path_type=Path), help="Where the queue is asked."),
    click.option(
        "--everybody", is_flag=True, help="Serve all users of this host (root only); jobs run as they."
    ),
    click.option("--follow", is_flag=True, hidden=True),
)

#: Options that say what the queue gives out.
_MACHINE = {"--procs": "procs", "--host": "hosts", "--hostfile": "hostfile"}


def queue_options(function: F) -> F:
    """Decorator: the options of a queue's manager."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def queue_only(given: Mapping[str, Any]) -> bool:
    """Return whether a manager keeps a queue and serves no node managers."""
    return given["queue"] is not None and all(given[name] is None for name in ("key", "config", "new_key"))


def check_queue_options(given: dict[str, Any]) -> None:
    """Raises `ConfigError` for options that nobody would read."""
    from apples.errors import ConfigError

    if given["queue"] is None:
        names = {
            "procs": "--procs",
            "hosts": "--host",
            "hostfile": "--hostfile",
            "queue_config": "--queue-config",
            "grace": "--grace",
            "socket": "--socket",
        }
        odd = [flag for name, flag in names.items() if given[name] is not None]
        odd += ["--everybody"] if given["everybody"] else []
        if odd:
            raise ConfigError([f"{flag} is of a queue; add --queue" for flag in odd])


def serve_queue(given: dict[str, Any], of_sharing: Sequence[str], say: Callable[[str], None]) -> int:
    """Serve until told to end. of_sharing : options given that only a manager of nodes reads"""
    import os

    from apples.errors import ConfigError
    from apples.livequeue.paths import store_path
    from apples.livequeue.server import QueueServer
    from apples.queueing import jit, kernel
    from apples.queueing.configuration import QueueFile, load_queue_file
    from apples.queueing.queue import warm
    from nws.base.detach import notify
    from nws.base.durations import parse_duration

    problems = [f"{flag} is for node managers; add --key FILE" for flag in of_sharing]
    grace_s = parse_duration(given["grace"] or "10s", what="--grace")
    if given["everybody"] and os.geteuid() != 0:
        problems.append("--everybody runs jobs as other users, which only root may; leave it out")
    given_out = [flag for flag, name in _MACHINE.items() if given[name] is not None]
    if len(given_out) > 1:
        problems.append(f"{' and '.join(given_out)} say what the queue gives out; keep one")
    if problems:
        raise ConfigError(problems)
    machine = _machine(given)
    chosen = QueueFile() if given["queue_config"] is None else load_queue_file(given["queue_config"])
    if not jit.is_kept(kernel.resumed):
        say(f"· {jit.NOTE}")
    warm()
    server = QueueServer(
        store_path(Path(given["queue"]) if given["queue"] else None),
        chosen,
        machine,
        say=say,
        grace_s=grace_s,
        everybody=given["everybody"],
        socket=given["socket"],
    )
    if given["follow"]:
        _follow(server, machine)
    ready = f"READY=1\nSTATUS=gives out {server.live.processors} processors"
    return 130 if server.run(ready=lambda: notify(ready)) == signal.SIGINT else 0


def _machine(given: dict[str, Any]) -> Machine:
    """What the queue gives out. Raises `ConfigError`."""
    import os

    from apples.livequeue.hosts import Machine, machine_of
    from apples.model.hostlist import parse_hosts, read_hostfile
    from nws.client import local_host

    if given["hosts"] is not None:
        return machine_of(parse_hosts(given["hosts"]))
    if given["hostfile"] is not None:
        return machine_of(read_hostfile(Path(given["hostfile"])))
    return Machine(slots={local_host(): given["procs"] or len(os.sched_getaffinity(0))})


def _follow(server: QueueServer, own: Machine) -> None:
    """A manager of nodes says on standard input which it has; without it there is no queue."""
    import os

    from apples.livequeue.hosts import Machine

    rest = b""

    def read() -> None:
        nonlocal rest
        data = os.read(0, 4096)
        if not data:
            server.loop.stop()
            return
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            nodes = json.loads(lines[-1])
            server.set_machine(Machine(slots=nodes) if nodes else own)

    server.loop.watch(0, read)


class QueueBeside:
    """The queue of a manager of nodes: a process of its own, so that no beat waits for a disk. A context manager.

    It gives out the nodes' processors, unless told what to give out, and ends with the manager.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        command = [sys.executable, "-c", "from apples.cli.toolbox import main; main()", "manager", "--follow"]
        command += [f"--queue={given['queue']}"] if given["queue"] else ["--queue"]
        for name in ("procs", "hosts", "hostfile", "queue_config", "grace", "socket"):
            if given[name] is not None:
                flag = "host" if name == "hosts" else name.replace("_", "-")
                command.append(f"--{flag}={given[name]}")
        command += ["--everybody"] if given["everybody"] else []
        self._fixed = any(given[name] is not None for name in _MACHINE.values())
        # A session of its own: what interrupts us ends it by the end of its input, when we have ended.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def counted(self, nodes: Mapping[str, int]) -> None:
        """These are connected, with so many processors each."""
        assert self._process.stdin is not None
        if not self._fixed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{json.dumps(dict(nodes))}\n".encode())
                self._process.stdin.flush()

    def __enter__(self) -> QueueBeside:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
