"""Listeners for the fuzzer: each starts its daemon, makes conversations from the daemon's models, and checks it.

Base documents come from the same models that the daemon reads by, where it has them. A conversation that has an answer
in the end closes with a marker, a request that is refused by its name.
"""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import orjson

from apples.daemons.exchanges import NODE_REQUESTS
from apples.daemons.ipc.wire import DatagramSeal, PresenceMessage, Seal, derive, node_key
from apples.daemons.nodemessages import FromNode, Hello
from apples.daemons.paths import read_key
from apples.hosts.agentconnection import ForkedAgent
from apples.hosts.frames import Unframer, frame
from apples.livequeue.queuemessages import QUEUE_REQUESTS
from apples.monitoring.pagelayout import MAGIC, PAGE_BYTES, VERSION
from apples.queueing.easyqueue import warm
from tests.nightly.conversations import Conversation, Failed
from tests.nightly.httprequests import Fuzzer
from tests.nightly.inputs import Generator, damaged
from tests.testbed.localcluster import LocalCluster

_APPLES = (sys.executable, "-c", "from apples.cli.toolbox import main; main()")
#: Lines of one conversation with a listener that answers every line.
_LINES = 40
#: Bytes at the end of an answer among which the marker is; more than arrive at a time.
_LOOK_BACK = 1 << 17
#: The first frame of a host agent's run.
SETUP = {"run_dir": ".", "token": "token", "directory": ".", "proxies": 0, "watched": None}
SETUP |= {"look_s": 0.2, "environment": {"A": "b"}, "beat_s": None, "silence_s": None}


class Daemon:
    """A daemon process with a log in a directory of its own. `ignored`: words of tracebacks that do not count"""

    ignored: tuple[str, ...] = ()

    def __init__(self, chance):
        self._chance = chance
        self._stack = ExitStack()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self):
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fuzz-")))
        self._log = self.directory / "log"
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)
        self._stack.close()

    def _spawn(self, *command, ready):
        environment = {**os.environ, "APPLES_STATE": str(self.directory / "state")}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.directory
            )
        self._processes.append(process)
        until = time.monotonic() + 300.0
        while not ready():
            if process.poll() is not None or time.monotonic() > until:
                raise Failed(f"the daemon did not start: {self._log.read_text()}")
            time.sleep(0.02)

    def ended(self, one):
        """Take note of a conversation whose connection is closed; raises `Failed`."""

    def check(self):
        """Raise `Failed` if a process of the daemon has ended, or its log has a traceback."""
        text = self._log.read_text(errors="replace")
        for trace in text.split("Traceback")[1:]:
            if not any(word in trace for word in self.ignored):
                raise Failed(f"a traceback in the log: {trace[:3000]}")
        for process in self._processes:
            if process.poll() is not None:
                raise Failed(f"{process.args[3:5]} ended with code {process.returncode}: {text[-3000:]}")

    # inputs

    def _document(self, generator, legal):
        """Return kind and bytes of one document: legal (one of eight), with errors in its values, or in its bytes."""
        turn = self._chance.random()
        if turn < 0.12:
            return "legal", json.dumps(legal).encode()
        if turn < 0.6:
            for _ in range(self._chance.randint(1, 3)):
                legal = generator.mutated(legal)
            return "odd values", json.dumps(legal).encode()
        return "odd bytes", damaged(self._chance, json.dumps(legal).encode())


def unix(path):
    one = socket.socket(socket.AF_UNIX)
    try:
        one.settimeout(30)
        one.connect(str(path))
    except OSError:
        one.close()
        raise
    return one


def ask(path, request):
    with unix(path) as one, one.makefile("rb") as answers:
        one.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(answers.readline() or b"null")


class Lines(Daemon):
    """A Unix socket on which every line has an answer. `generator`: of its documents."""

    path: Path
    generator: Generator
    _number = 0

    def _read(self, requests):
        """Keep the schemas of requests by name, and return the definitions that they refer to."""
        definitions: dict[str, Any] = {}
        self._schemas = {}
        for name, exchange in requests.items():
            schema = msgspec.json.schema(exchange.argument.type)
            definitions |= schema.pop("$defs", {})
            self._schemas[name] = schema
        return definitions

    def conversation(self):
        count = self._chance.randint(1, _LINES)
        lines, kinds = [], set()
        for _ in range(count):
            kind, line = self._document(self.generator, self.legal())
            kinds.add(kind)
            lines.append(line)
        raw = b"\n".join(lines)
        if self._chance.random() < 0.15:
            # Ends in the middle of a line, or with one that is too long for every limit.
            raw = raw + b"x" * self._chance.choice(
                (0, 5000, 9_000_000 if self._chance.random() < 0.02 else 0)
            )
            return Conversation("cut off", unix(self.path), raw, count)
        Lines._number += 1
        marker = f"marker-{Lines._number}"
        raw += b"\n" + json.dumps({marker: 1}).encode() + b"\n"

        def over(received):
            return received.find(marker.encode(), max(len(received) - _LOOK_BACK, 0)) >= 0

        return Conversation("lines", unix(self.path), raw, count, over=over)


class Queue(Lines):
    """The queue manager's socket. One job holds the machine, so that accepted ones wait."""

    def _start(self):
        warm()
        self.path = self.directory / "queue.sock"
        definitions = self._read(QUEUE_REQUESTS)
        place = str(self.directory)
        names: dict[str, Any] = {
            **dict.fromkeys(("directory", "output", "error"), (place, f"{place}/%j.out", "/dev/null")),
            **dict.fromkeys(("why", "wait", "cancel", "hold", "release"), (1, 2, 3, 50, 2**63 - 1)),
            "procs": (1, 1, 2),
            "after": ("any:1", "ok:1", "failed:2", "any:50"),
            "command": ("true", "/bin/true", "sleep", "no-such-program"),
        }
        self.generator = Generator(self._chance, names, {"$defs": definitions})
        options = ("--procs", "1", "--socket", str(self.path), "--queue", "--queue-config", "queue.yaml")
        (self.directory / "queue.yaml").write_text("limits: {waiting: 20}\n")
        self._spawn(*_APPLES, "manager", *options, ready=self._answers)
        holding = self.generator.made(self._schemas["submit"])
        holding |= {
            "token": "holding",
            "command": ["sleep", "100000"],
            "procs": 1,
            "request_s": 1e5,
            "duties": [],
            "held": False,
            "after": [],
        }
        holding |= {"directory": place, "output": "/dev/null", "error": "/dev/null", "environment": {}}
        answer = ask(self.path, {"submit": holding})
        if "job" not in answer:
            raise Failed(f"a legal job was refused: {answer}")

    def __exit__(self, *exception):
        with suppress(OSError, AttributeError):
            jobs = [job["id"] for job in ask(self.path, {"queue": None})["queue"]["jobs"]]
            ask(self.path, {"cancel": jobs})
            until = time.monotonic() + 30.0
            while time.monotonic() < until and ask(self.path, {"queue": None})["queue"]["jobs"]:
                time.sleep(0.05)
        super().__exit__(*exception)

    def _answers(self):
        with suppress(OSError, TypeError):
            return "queue" in ask(self.path, {"queue": None})
        return False

    def legal(self):
        name = self._chance.choice(list(self._schemas))
        made = self.generator.made(self._schemas[name], name)
        if name == "submit":
            made["token"] = f"{self._chance.getrandbits(64):x}"
        elif name == "cancel":
            # The job that holds the machine stays.
            made = [job for job in made if job != 1]
        return {name: made}

    def probe(self):
        if "queue" not in (answer := ask(self.path, {"queue": None})):
            raise Failed(f"a legal request was refused: {answer}")


class Node(Lines):
    """A node manager's socket, under a policy that reads pages. It registers sleeping processes of the fuzzer."""

    _policy = "fcs"

    def _start(self):
        definitions = self._read(NODE_REQUESTS)
        cluster = self._stack.enter_context(LocalCluster(self.directory, {"a": "0"}, policy=self._policy))
        cluster.start()
        self._cluster = cluster
        self._processes += [cluster.manager, cluster.nodes["a"]]
        self.path = cluster.socket("a")
        sleepers = [subprocess.Popen(["sleep", "100000"]) for _ in range(3)]
        self._pages = []
        for number, sleeper in enumerate(sleepers):
            self._stack.callback(sleeper.wait)
            self._stack.callback(sleeper.kill)
            self._pages.append(self.directory / f"x.{number}")
            self._pages[-1].write_bytes(_page(sleeper.pid))
        pids = (*(one.pid for one in sleepers), os.getpid(), 1)
        names = {"job": ("x", "y", "z"), "pid": pids, "page": tuple(map(str, self._pages))}
        self.generator = Generator(self._chance, names, {"$defs": definitions})

    def legal(self):
        if self._chance.random() < 0.02:
            page = self._chance.choice(self._pages)
            # The owner of a page may write anything to it.
            page.write_bytes(damaged(self._chance, page.read_bytes())[:65536])
        elif self._chance.random() < 0.02:
            self._chance.choice(self._pages).write_bytes(_page(os.getpid()))
        name = self._chance.choice(list(self._schemas))
        made = self.generator.made(self._schemas[name], name)
        if name == "register" and self._chance.random() < 0.8:
            made |= {"rank": self._chance.randrange(4), "ranks": 4}
        return {name: made}

    def probe(self):
        if self._cluster.ask("a", "status") is None:
            raise Failed("the node manager does not answer")


def _page(pid):
    """Return a monitor's page of a process, as its owner writes it."""

    return struct.pack("=QIIIIIII", MAGIC, VERSION, 0, 1, pid, pid, 0, 4).ljust(PAGE_BYTES, b"\0")


class Manager(Daemon):
    """The machine manager's stream and datagrams, from a holder of its key."""

    def _start(self):
        cluster = self._stack.enter_context(LocalCluster(self.directory, {"a": "0"}))
        cluster.start()
        self._cluster = cluster
        self._processes += [cluster.manager, cluster.nodes["a"]]
        self._key = read_key(cluster.key)
        host, _, port = cluster.manager_address.rpartition(":")
        self._address = host, int(port)
        self._hello_schema = msgspec.json.schema(Hello)
        self._line_schema = msgspec.json.schema(FromNode)
        definitions = {**self._hello_schema["$defs"], **self._line_schema["$defs"]}
        words = tuple(f"{number:032x}" for number in range(4))
        nodes = tuple(f"n{number}" for number in range(8))
        names = {"node": nodes, "nodes": nodes, "job": ("x", "y", "z"), "nonce": words, "word": words}
        names |= {"policy": ("gang",), "rank": (0, 1), "ranks": (2,)}
        self._generator = Generator(self._chance, names, {"$defs": definitions})
        self._datagrams = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def conversation(self):
        connection = socket.create_connection(self._address, timeout=30)
        greeting = b""
        while not greeting.endswith(b"\n"):
            data = connection.recv(4096)
            if not data:
                raise Failed("the manager closed a connection without a greeting")
            greeting += data
        about = json.loads(greeting)
        hello = self._generator.made(self._hello_schema)
        nonce, own = hello["nonce"], node_key(self._key, str(hello["node"]))
        kind, chance = "lines", self._chance
        first = json.dumps(hello).encode()
        if chance.random() < 0.3:
            kind, first = self._document(self._generator, hello)
            kind = f"hello: {kind}"
        raw = _sealed(Seal(derive(own, "hello", about["challenge"]), ours="node", theirs="manager"), first)
        seal = Seal(derive(own, "stream", about["challenge"], nonce), ours="node", theirs="manager")
        count = chance.randint(1, 6)
        for _ in range(count):
            raw += _sealed(seal, self._document(self._generator, self._generator.made(self._line_schema))[1])
        if chance.random() < 0.1:
            # Bytes that do not carry the seal any more.
            kind, raw = "damaged lines", damaged(chance, raw)
        datagram = DatagramSeal(own, about["session"]).here(
            PresenceMessage(
                f"{chance.randrange(4):032x}", chance.getrandbits(64), silent=False, multicast=True
            )
        )
        self._datagrams.sendto(
            damaged(chance, datagram)[:1400] if chance.random() < 0.8 else datagram, self._address
        )
        return Conversation(kind, connection, raw, count + 2)

    def probe(self):
        if self._cluster.ask("a", "view") is None:
            raise Failed("the manager does not answer its node")


def _sealed(seal, body):
    """Return a line of any bytes under the next seal of a stream; see `Seal.line`."""
    body = body.replace(b"\n", b" ")
    mac = seal._mac(seal._ours, seal._sent, body)
    seal._sent += 1
    return bytes(mac + b" " + body + b"\n")


class Agent(Daemon):
    """Host agents, forked as the launcher does it. Each takes the frames of one conversation and ends orderly."""

    def _start(self):
        # An agent makes and removes the run directory that it is named: nothing but these may be in reach.
        self._work = self.directory.joinpath(*"abcdefgh")
        self._work.mkdir(parents=True)
        (self._work / "token").touch()
        before = Path.cwd()
        os.chdir(self._work)
        self._stack.callback(os.chdir, before)
        self._log.touch()
        self._stderr = self._stack.enter_context(self._log.open("ab"))
        self._agents: dict[Conversation, Any] = {}
        self._generator = Generator(self._chance, {}, {})

    def conversation(self):
        chance = self._chance
        setup = SETUP | {"run_dir": chance.choice((".", "own")), "proxies": chance.randint(0, 2)}
        setup |= {"watched": chance.choice((None, "", "page")), "look_s": chance.choice((0.2, 1.1))}
        setup |= {"beat_s": chance.choice((None, 2.0)), "silence_s": chance.choice((None, 30.0))}
        kind, first = "orders", json.dumps(setup).encode()
        if chance.random() < 0.4:
            kind, first = self._document(self._generator, setup)
            kind = f"setup: {kind}"
        raw, count = frame(b"J", first), chance.randint(1, 25)
        for _ in range(count):
            raw += self._frame()
        if chance.random() < 0.2:
            kind, raw = "damaged frames", damaged(chance, raw)
        ours, agent = self._forked()
        one = Conversation(kind, ours, raw, count + 1, label=_agent_answer)
        self._agents[one] = agent
        return one

    def _forked(self):
        ours, theirs = socket.socketpair()
        with theirs:
            return ours, ForkedAgent(theirs.fileno(), theirs.fileno(), self._stderr.fileno(), None)

    def _frame(self):
        chance = self._chance
        order = {"id": chance.randint(0, 3), "command": ["/bin/true"], "environment": {"A": "b"}}
        payloads: dict[bytes, Callable[[], bytes]] = {
            b"B": lambda: b"",
            b"K": lambda: str(chance.choice((1, 10, 15, 64, 0))).encode(),
            b"D": lambda: b"3,4,5",
            b"F": lambda: b"input-%d\ncontent" % chance.randint(0, 3),
            b"S": lambda: json.dumps(order).encode(),
        }
        kind = chance.choice(list(payloads))
        payload = payloads[kind]()
        if chance.random() < 0.25:
            payload = self._document(self._generator, order)[1] if kind == b"S" else damaged(chance, payload)
        if chance.random() < 0.02:
            kind = bytes([chance.randrange(256)])
        return frame(kind, payload[:100_000])

    def ended(self, one):
        code = self._agents.pop(one).wait(10.0)
        if code != 0:
            text = self._log.read_text(errors="replace")
            raise Failed(f"an agent ended with code {code}: {text[text.find('Traceback') :][:3000]}")

    def probe(self):
        ours, agent = self._forked()
        with ours:
            ours.settimeout(30)
            ours.sendall(frame(b"J", json.dumps(SETUP).encode()) + frame(b"C"))
            frames = Unframer(preamble=True).feed(b"".join(iter(lambda: ours.recv(65536), b"")))
        if [kind for kind, _ in frames] != [b"R", b"G"] or agent.wait(10.0) != 0:
            raise Failed(f"an agent answered {frames} to a legal run")


def _agent_answer(received):
    kinds = [kind for kind, _ in Unframer(preamble=True).feed(received)]
    return "refused" if b"W" in kinds else "orderly end" if b"G" in kinds else "no setup"


class Http(Daemon):
    """The weather server, by its own OpenAPI document. `address`: of a server that runs already."""

    _program: tuple[str, ...] = ("-m", "nws.cli")
    _settings = ""

    def __init__(self, chance, address=None):
        super().__init__(chance)
        self.address = address

    def _start(self):
        if self.address is None:
            settings = self.directory / "weather.yaml"
            settings.write_text(
                f"listen: 127.0.0.1:0\nstore: weather.db\nlimits: {{requests_per_minute: 100000000}}\n{self._settings}"
            )
            command = (sys.executable, *self._program, "server", "--config", str(settings))
            self._spawn(*command, ready=lambda: self._announced() is not None)
            self.address = self._announced()
        else:
            self._log.touch()
        self._cases = Fuzzer(orjson.loads(self._get("/openapi.json")), self._chance.getrandbits(32))

    def _announced(self):
        found = re.search(r" at http://([\d.]+):(\d+)", self._log.read_text())
        return None if found is None else (found[1], int(found[2]))

    def conversation(self):
        case = next(self._cases.cases(1))
        connection = socket.create_connection(self.address, timeout=30)
        return Conversation(
            case.kind, connection, case.raw, over=_answered if case.whole else None, label=_status
        )

    def ended(self, one):
        status = _status(bytes(one.received))
        if status.startswith("5") or (status == "closed" and one.over is not None):
            raise Failed(f"answered {status}")

    def probe(self):
        health = self._get("/healthz")
        if b'"ok"' not in health:
            raise Failed(f"its health is {health!r}")

    def _get(self, path):
        with socket.create_connection(self.address, timeout=60) as peer:
            peer.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return b"".join(iter(lambda: peer.recv(65536), b"")).partition(b"\r\n\r\n")[2]


def _head(received):
    """Return the answer without a first `100 Continue`."""
    return received.partition(b"\r\n\r\n")[2] if received.startswith(b"HTTP/1.1 100") else received


def _answered(received):
    return b"\r\n\r\n" in _head(received)


def _status(received):
    head = _head(received)
    return head[9:12].decode("ascii", "replace") if head.startswith(b"HTTP/1.1 ") else "closed"


LISTENERS = {"http": Http, "queue": Queue, "node": Node, "manager": Manager, "agent": Agent}
