"""Node managers and their manager on one machine, as real processes: for tests, benchmarks and experiments.

Each node has CPUs of its own. A relay between nodes and manager, if asked for, can be cut like a cable. `spin` starts a
process that registers by hand and computes.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec import to_builtins

from apples.daemons.nodeclient import NodeClient
from apples.daemons.paths import new_key
from apples.daemons.processes import facts
from apples.errors import SharingError
from nws.base.program import OWN_PYTHON

T = TypeVar("T")

_APPLES = (*OWN_PYTHON, "-c", "from apples.cli.toolbox import main; main()")
_BARE = (sys.executable, "-I", "-S", "-c")

#: Registers with its arguments, computes for some CPU seconds, ends. It leads its own process group.
_SPIN = """
import json, os, socket, sys, time
path, job, rank, ranks, cpu_s = sys.argv[1:]
line = socket.socket(socket.AF_UNIX)
line.connect(path)
about = {"job": job, "rank": int(rank), "ranks": int(ranks), "pid": os.getpid(), "page": None}
line.sendall(json.dumps({"register": about}).encode() + b"\\n")
answer = line.recv(4096)
if not answer.startswith(b'{"registered"'):
    sys.exit(answer.decode())
if cpu_s.endswith("turns"):
    for _ in range(int(cpu_s.removesuffix("turns"))):
        pass
else:
    while time.process_time() < float(cpu_s):
        pass
"""


class LocalCluster:
    """One machine of several nodes. A context manager, which ends everything that it started.

    nodes : CPUs of each node by name.  options : more command-line options for both daemons
    relayed : nodes reach the manager through a relay, and not by multicast
    """

    def __init__(
        self,
        directory: Path,
        nodes: Mapping[str, str],
        *,
        policy: str = "gang",
        slice_s: float = 0.1,
        manager_options: Sequence[str] = (),
        node_options: Sequence[str] = (),
        relayed: bool = False,
    ) -> None:
        self.directory, self.cpus, self.policy = directory, dict(nodes), policy
        self._slice = f"{slice_s * 1e3:g}ms"
        self._manager_options, self._node_options = tuple(manager_options), tuple(node_options)
        self._relayed = relayed
        self.key = directory / "key"
        self.manager: subprocess.Popen[bytes] | None = None
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.relay: Relay | None = None
        self.manager_address = "127.0.0.1:0"
        self._children: list[subprocess.Popen[bytes]] = []
        self._log = (directory / "log").open("wb")

    def __enter__(self) -> Self:
        if not self.key.exists():
            new_key(self.key)
        return self

    def __exit__(self, *exception: object) -> None:
        for process in [*self._children, *self.nodes.values(), *([self.manager] if self.manager else [])]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in [*self._children, *self.nodes.values(), *([self.manager] if self.manager else [])]:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.relay is not None:
            self.relay.close()
        self._log.close()

    def log(self) -> str:
        """Return the output of the daemons."""
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start manager and nodes; return when the nodes receive heartbeats."""
        self.start_manager()
        self.start_nodes()
        self.wait(lambda: all(self.hears(name) for name in self.cpus))

    def start_manager(self) -> None:
        """Start the manager, at its earlier port if it ran before."""
        file = self.directory / "place"
        file.unlink(missing_ok=True)
        relayed = ("--multicast", "none") if self._relayed else ()
        self.manager = self._daemon(
            *("manager", "--listen", self.manager_address, "--policy", self.policy, "--slice", self._slice),
            *("--key", str(self.key), "--place-file", str(file), *relayed, *self._manager_options),
        )
        self.wait(file.exists)
        self.manager_address = file.read_text(encoding="utf-8").strip()
        if self._relayed and self.relay is None:
            self.relay = Relay(int(self.manager_address.rpartition(":")[2]))

    def start_nodes(self, *, managed: bool = True) -> None:
        """Start all node managers at once; return when they answer."""
        for name in self.cpus:
            self._start_node(name, managed=managed)
        for name in self.cpus:
            self.wait(lambda name=name: self.ask(name, "status"))  # type: ignore[misc]

    def start_node(self, name: str, *, managed: bool = True) -> None:
        """Start a node manager; return when it answers. `managed`: it has a manager"""
        self._start_node(name, managed=managed)
        self.wait(lambda: self.ask(name, "status"))

    def _start_node(self, name: str, *, managed: bool) -> None:
        place = self.manager_address if self.relay is None else f"127.0.0.1:{self.relay.port}"
        options = ("--manager", place, "--key", str(self.key)) if managed else ()
        self.nodes[name] = self._daemon(
            *("node", "--name", name, "--cpus", self.cpus[name], "--policy", self.policy),
            *("--socket", str(self.socket(name)), *options, *self._node_options),
        )

    def socket(self, name: str) -> Path:
        """Return the socket of a node manager."""
        return self.directory / f"{name}.sock"

    def ask(self, name: str, what: str, argument: object = None) -> Any:
        """Return the answer of a node manager to one request; None if it does not answer."""
        try:
            with NodeClient(self.socket(name)) as client:
                # Tests compare documents.
                return to_builtins(client.ask(what, argument))
        except SharingError:
            return None

    def hears(self, name: str) -> bool:
        """Return whether a node manager receives heartbeats."""
        status = self.ask(name, "status")
        return status is not None and not status["silent"]

    def view(self) -> dict[str, Any]:
        """Return the manager's view; empty while there is none."""
        for name in self.cpus:
            view = self.ask(name, "view")
            if view:
                return dict(view)
        return {}

    def spin(
        self, job: str, rank: int, ranks: int, node: str, cpu_s: float | str = 3600.0
    ) -> subprocess.Popen[bytes]:
        """Return a registered process that computes; raises `SharingError` if it is refused.

        The argument `cpu_s` is CPU seconds, or a fixed amount of work as `1000000turns` of an empty loop.
        """
        arguments = (str(self.socket(node)), job, str(rank), str(ranks), str(cpu_s))
        process = subprocess.Popen(
            [*_BARE, _SPIN, *arguments], stdout=self._log, stderr=self._log, start_new_session=True
        )
        self._children.append(process)
        # Asked of the node manager: the process itself may be held stopped as soon as it is known.
        self.wait(lambda: process.poll() is not None or self._registered(node, process.pid))
        if process.poll() is not None and process.returncode:
            raise SharingError(f"{job}.{rank} could not register on {node}: {self.log()}")
        return process

    def wait(self, what: Callable[[], T], within_s: float = 20.0) -> T:
        """Return the first true value; raises `SharingError` if there is none in time."""
        deadline = time.monotonic() + within_s
        while not (value := what()):
            if time.monotonic() > deadline:
                raise SharingError(f"waited {within_s:g} s in vain; the daemons said:\n{self.log()}")
            time.sleep(0.01)
        return value

    def _registered(self, node: str, pid: int) -> bool:
        status = self.ask(node, "status")
        return status is not None and any(entry["pid"] == pid for entry in status["processes"])

    def _daemon(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_APPLES, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )


def state_of(process: subprocess.Popen[bytes]) -> str:
    """Return the state in /proc: R, S, T (stopped), Z; empty if the process has ended."""
    about = facts(process.pid)
    return "" if about is None else about.state


def stopped(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Return the pids of the stopped processes."""
    return [process.pid for process in processes if state_of(process) == "T"]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with SIGKILL."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


class Relay:
    """A cable between nodes and the manager at `port` of this machine, which can be cut and mended.

    While it is cut, data are neither passed on nor refused, as when a switch is off.
    """

    def __init__(self, port: int) -> None:
        self._manager = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("127.0.0.1", self.port))
        #: By descriptor, source and target of data; and the datagram sockets that represent nodes, by address.
        self._to: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._nodes: dict[tuple[str, int], socket.socket] = {}
        self._stand_ins: dict[int, tuple[tuple[str, int], socket.socket]] = {}
        self._cut, self._cut_streams = threading.Event(), threading.Event()
        self._over, self._ending = os.pipe()
        self._poll = select.poll()
        for fd in (self._over, self._listener.fileno(), self._datagrams.fileno()):
            self._poll.register(fd, select.POLLIN)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self, *, streams: bool = True) -> None:
        """Pass nothing on. `streams`: False if only datagrams are lost"""
        self._cut.set()
        if streams:
            self._cut_streams.set()

    def mend(self) -> None:
        """Pass on all data from now on; earlier data are lost."""
        self._cut.clear()
        self._cut_streams.clear()

    def close(self) -> None:
        """End the relay."""
        os.write(self._ending, b"x")
        self._thread.join()
        for one in (
            self._listener,
            self._datagrams,
            *self._nodes.values(),
            *(pair[0] for pair in self._to.values()),
        ):
            one.close()
        os.close(self._over)
        os.close(self._ending)

    def _run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._over:
                    return
                with suppress(OSError):
                    self._serve(fd)

    def _serve(self, fd: int) -> None:
        if fd == self._listener.fileno():
            near, _ = self._listener.accept()
            far = socket.create_connection(self._manager)
            for one, other in ((near, far), (far, near)):
                self._to[one.fileno()] = one, other
                self._poll.register(one.fileno(), select.POLLIN)
        elif fd == self._datagrams.fileno():
            datagram, address = self._datagrams.recvfrom(2048)
            if not self._cut.is_set():
                self._stand_in(address).sendto(datagram, self._manager)
        elif fd in self._to:
            self._pass_on(fd)
        elif fd in self._stand_ins:
            address, ours = self._stand_ins[fd]
            datagram = ours.recv(2048)
            if not self._cut.is_set():
                self._datagrams.sendto(datagram, address)

    def _stand_in(self, address: tuple[str, int]) -> socket.socket:
        if address not in self._nodes:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind(("127.0.0.1", 0))
            self._nodes[address] = made
            self._stand_ins[made.fileno()] = address, made
            self._poll.register(made.fileno(), select.POLLIN)
        return self._nodes[address]

    def _pass_on(self, fd: int) -> None:
        source, target = self._to[fd]
        try:
            data = source.recv(1 << 16)
            if data and not self._cut_streams.is_set():
                target.sendall(data)
        except OSError:
            data = b""
        if not data:
            for one in (source, target):
                if self._to.pop(one.fileno(), None) is not None:
                    self._poll.unregister(one.fileno())
                    one.close()
