"""`apples manager`: coordinate the node managers of a machine, and keep a queue of jobs. Nothing is decided here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import HeadedCommand, given_words, headed, with_options
from apples.errors import ConfigError
from nws.base.closing import Closing
from nws.base.command import FILE
from nws.base.detach import notify, service
from nws.base.files import write_whole
from nws.base.notes import note, step
from nws.base.program import OWN_PYTHON
from nws.base.records import document_of

if TYPE_CHECKING:
    from apples.livequeue.queuehosts import Machine
    from apples.livequeue.queueserver import QueueServer

_queue = headed("Queue")
_nodes = headed("Node managers")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManagerOptions:
    """Options of a queue's manager. queue : file of the store, empty for the usual one, None for no queue

    queue : Keep a queue of jobs, in FILE (default $APPLES_STATE/queue/jobs.db).
    procs : Processors of this machine that jobs may use (default: all).
    hosts : Hosts that jobs may use instead, with slots (a:4,node[1-8]:2).
    hostfile : The same from a file, one 'host slots=4' or 'host:4' a line.
    queue_config : Policy and estimates (YAML), as in configs/queue.yaml.
    grace : From TERM to KILL for jobs that must end (default 10s).
    socket : Socket of the queue.
    everybody : Serve all users of this host (root only); jobs run as their users.
    """

    queue: str | None = _queue("--queue", is_flag=False, flag_value="", metavar="[FILE]")
    procs: int | None = _queue("--procs", type=click.IntRange(min=1))
    hosts: str | None = _queue("-H", "--host", metavar="LIST")
    hostfile: str | None = _queue("--hostfile", metavar="FILE")
    queue_config: str | None = _queue("--queue-config", metavar="FILE")
    grace: str | None = _queue("--grace", metavar="TIME")
    socket: str | None = _queue("--socket", metavar="FILE")
    everybody: bool = _queue("--everybody", is_flag=True)
    follow: bool = _queue("--follow", is_flag=True, hidden=True)

    def check(self) -> None:
        """Raise `ConfigError` for options that need --queue."""
        if self.queue is None:
            unused = given_words(self, skip=("follow",))
            if unused:
                raise ConfigError([f"{flag} is for a queue; add --queue" for flag in unused])


#: Options that name the processors that jobs may use.
_MACHINE = ("--procs", "--host", "--hostfile")


def serve_queue(given: QueueManagerOptions, of_sharing: Sequence[str]) -> int:
    """Serve until a signal; return the exit code. of_sharing : options given that only a manager of nodes reads"""
    from apples.livequeue.queuepaths import store_path
    from apples.livequeue.queueserver import QueueServer
    from apples.queueing import jit, kernel
    from apples.queueing.configuration import QueueFile, load_queue_file
    from apples.queueing.easyqueue import warm
    from nws.base.durations import parse_duration
    from nws.base.jit import is_cached

    problems = [f"{flag} is for node managers; add --key FILE" for flag in of_sharing]
    grace_s = parse_duration(given.grace or "10s", what="--grace")
    if given.everybody and os.geteuid() != 0:
        problems.append("--everybody runs jobs as other users, which only root may; leave it out")
    given_out = [flag for flag in given_words(given) if flag in _MACHINE]
    if len(given_out) > 1:
        problems.append(f"{' and '.join(given_out)} exclude each other; keep one")
    if problems:
        raise ConfigError(problems)
    machine = _machine(given)
    chosen = QueueFile() if given.queue_config is None else load_queue_file(given.queue_config)
    if not is_cached(kernel.resumed):
        step(jit.NOTE)
    warm()
    server = QueueServer(
        store_path(Path(given.queue) if given.queue else None),
        chosen,
        machine,
        log=note,
        grace_s=grace_s,
        all_users=given.everybody,
        socket=None if given.socket is None else Path(given.socket),
    )
    if given.follow:
        _follow(server, machine)
    ready = f"READY=1\nSTATUS=gives out {server.live.processors} processors"
    return 130 if server.run(ready=lambda: notify(ready)) == signal.SIGINT else 0


def _machine(given: QueueManagerOptions) -> Machine:
    """Return the processors that jobs may use; raise `ConfigError`."""
    from apples.livequeue.queuehosts import Machine, machine_of
    from nws.base.hostlist import parse_hosts, read_hostfile
    from nws.client import local_host

    here, cpus = local_host(), tuple(sorted(os.sched_getaffinity(0)))
    if given.hosts is not None:
        return machine_of(parse_hosts(given.hosts), here=here, cpus=cpus)
    if given.hostfile is not None:
        return machine_of(read_hostfile(Path(given.hostfile)), here=here, cpus=cpus)
    return Machine(slots={here: given.procs or len(cpus)}, here=here, cpus=cpus)


def _follow(server: QueueServer, this_machine: Machine) -> None:
    """Read the connected nodes from standard input, where the manager of nodes writes them; stop at its end."""
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
            server.set_machine(replace(this_machine, slots=nodes) if nodes else this_machine)

    server.loop.watch(0, read)


class QueueBeside(Closing):
    """The queue of a manager of nodes, as a context manager.

    It is a process of its own, so that no heartbeat waits for a disk.
    Its jobs use the nodes' processors unless the options name others. It ends with the manager.
    """

    def __init__(self, given: QueueManagerOptions) -> None:
        words = given_words(given, skip=("queue", "follow"))
        command = [*OWN_PYTHON, "-c", "from apples.cli.toolbox import main; main()", "manager", "--follow"]
        command.append(f"--queue={given.queue}" if given.queue else "--queue")
        command += [word for value in words.values() for word in value]
        self._fixed = any(flag in words for flag in _MACHINE)
        # A session of its own: an interrupt of the manager reaches it as the end of its input, after the manager ended.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def counted(self, nodes: Mapping[str, int]) -> None:
        """Send the connected nodes with their numbers of processors."""
        assert self._process.stdin is not None
        if not self._fixed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{json.dumps(dict(nodes))}\n".encode())
                self._process.stdin.flush()

    def close(self) -> None:
        """End it, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


_QUEUE_FIELDS = tuple(each.name for each in fields(QueueManagerOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineManagerOptions:
    """Options of a manager of nodes; `queue` are those of a queue's manager.

    listen : Where nodes connect, TCP and UDP (default 127.0.0.1:7171).
    policy : fcs (default), gang or batch.
    slice_text : Time slice (default 100ms).
    mpl : Limit of jobs of one user that share a processor; others wait.
    multicast : Multicast group of the heartbeats, or none (default 239.192.71.71).
    key : File of mode 0600 with the manager's key.
    config : Settings (YAML), as in configs/sharing.yaml.
    new_key : Write a new key to FILE, and exit.
    enrol : Print the key of one node, for a key file of its own, and exit.
    place_file : Write HOST:PORT to FILE once the manager listens (for port 0).
    while_needed : Exit when the last node disconnects.
    """

    listen: str | None = _nodes("--listen", metavar="HOST:PORT")
    policy: str | None = _nodes("--policy", metavar="NAME")
    slice_text: str | None = _nodes("--slice", metavar="TIME")
    mpl: int | None = _nodes("--mpl", type=click.IntRange(min=1))
    multicast: str | None = _nodes("--multicast", metavar="GROUP")
    key: Path | None = _nodes("--key", type=FILE)
    config: Path | None = _nodes("--config", type=FILE)
    new_key: Path | None = _nodes("--new-key", type=FILE)
    enrol: str | None = _nodes("--enrol", metavar="NODE")
    place_file: Path | None = _nodes("--place-file", type=FILE)
    while_needed: bool = _nodes("--while-needed", is_flag=True)
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
        return serve_queue(options.queue, list(given_words(options, skip=_QUEUE_FIELDS)))
    from apples.daemons.ipc.eventloop import become_realtime
    from apples.daemons.managerdaemon import PRIORITY, ManagerDaemon
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
    named = document_of(options, "listen", "policy", "slice_text", "mpl", "multicast", "key")
    sharing = settings_of(options.config, **named)
    if options.enrol is not None:
        click.echo(enrolled(sharing.needed_key(), options.enrol))
        return 0
    secret = read_manager_key(sharing.needed_key())
    sharing.check_manager()
    with ExitStack() as stack:
        follow = {}
        if options.queue.queue is not None:
            follow["counted"] = stack.enter_context(QueueBeside(options.queue)).counted
        realtime = sharing.realtime and become_realtime(PRIORITY)
        daemon = ManagerDaemon(
            sharing, secret, log=note, realtime=realtime, while_needed=options.while_needed, **follow
        )
        if options.place_file is not None:
            write_whole(options.place_file, f"{daemon.place}\n")
        return 130 if daemon.run() == signal.SIGINT else 0
