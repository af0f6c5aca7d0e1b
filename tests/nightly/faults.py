"""Calls of every daemon fail, one kind after the other: no daemon may end or keep a wrong state, and each recovers.

A real daemon runs with the shim `fault_shim.c`. For each fault, all calls of a kind fail for half of the time, and a
third of them for the other half, while requests go on. Afterwards the daemon must live, answer within a second, have no
traceback in its log, and its state must hold: what the weather server acknowledged is stored, each job of the queue ran
at most once and its outcome is true, the sensor delivers again. `node` is a node manager with its machine manager. A
host agent serves one run: it ends orderly, whatever fails.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from unittest.mock import patch

from apples.hosts import hostagent
from apples.hosts.frames import Unframer, frame
from nws.base.errors import ReportedError
from nws.client.remote import ServiceClient
from nws.series import Measurement, Series
from tests.nightly.conversations import ANSWER_S, Failed
from tests.nightly.listeners import SETUP, Daemon, Http, Node, Queue, ask

#: Time for a daemon to recover, longer than any of its retries, seconds.
_RECOVERY_S = 15.0
#: Host agents that wait for a fault.
_AGENTS = 6


class WeatherServer(Http):
    """The weather server, to which measurements are delivered; it saves the state of its forecasters often."""

    _program = (
        "-c",
        "import nws.service.forecaster as f; f.SAVE_EVERY_S = 0.2; f.SAVE_BPS = 1e12; from nws.cli import main; main()",
    )

    def _start(self):
        super()._start()
        self._acknowledged: set[float] = set()
        self._next = float(int(time.time()) - 80_000)

    def work(self):
        """Deliver some measurements of known and new series, and look at the health."""

        power = Series.parse("x.power@alpha")
        with ServiceClient(self._url) as client:
            for _ in range(10):
                self._next += 1.0
                if client.put([Measurement(power, self._next, 1.0)])["accepted"] == 1:
                    self._acknowledged.add(self._next)
            others = [Series.parse(f"x.{one}@h{self._next:.0f}") for one in range(300)]
            client.put([Measurement(one, self._next, float(t)) for one in others for t in range(10)])
            client.snapshot()
        self._get("/healthz")

    def verify(self):
        """Raise `Failed` if an acknowledged measurement is not stored, or stored twice."""

        with ServiceClient(self._url) as client:
            found = client.samples("x.power@alpha", since=0.0)["t"]
        if len(set(found)) != len(found) or not self._acknowledged <= set(found):
            raise Failed(f"{len(self._acknowledged - set(found))} acknowledged samples are not stored")

    @property
    def _url(self):
        return "http://{}:{}".format(*self.address)


class QuickServer(WeatherServer):
    """A weather server whose sensors measure and probe all the time."""

    _settings = "every: {cpu: 0.2, memory: 0.2, deliver: 0.3}\nframe: 1\nguard: 0.1\n"


class Sensor(Daemon):
    """A sensor daemon that delivers to a weather server, and probes another sensor; both without faults."""

    def _start(self):
        # The shim is for the sensor alone.
        with patch.dict(os.environ, {"LD_PRELOAD": ""}):
            self._server = self._stack.enter_context(QuickServer(self._chance))
            self._sensor("gamma")
        self._sensor("beta")

    def _sensor(self, host):
        command = (sys.executable, "-m", "nws.cli", "sensor", "--server", self._server._url, "--host", host)
        command += ("--spool", f"{self.directory}/{host}.db", "--echo-port", "0", "--address", "127.0.0.1")
        self._spawn(*command, ready=lambda: self._newest(host) > 0.0)

    def work(self):
        """Let the sensor measure and deliver."""
        time.sleep(0.2)

    def probe(self):
        """Raise `Failed` unless a new measurement arrives."""
        before, until = self._newest(), time.monotonic() + _RECOVERY_S
        while self._newest() <= before:
            if time.monotonic() > until:
                raise Failed(f"no new measurement in {_RECOVERY_S:g} s")
            time.sleep(0.1)

    def verify(self):
        """Nothing beyond `probe`."""

    def _newest(self, host="beta"):
        document = json.loads(self._server._get(f"/v1/series?host={host}") or b"{}")
        return max((one.get("measured_at") or 0.0 for one in document.get("series", ())), default=0.0)


class JobQueue(Queue):
    """The queue's manager with its supervisors, and jobs that append their number to a file."""

    def _start(self):
        super()._start()
        ask(self.path, {"cancel": [1]})
        self._submitted = 0

    def work(self):
        """Submit a job."""
        self._submitted += 1
        number = self._submitted
        job = {
            "token": f"job-{number}", "name": f"job-{number}", "project": "", "directory": str(self.directory),
            "command": ["sh", "-c", f"echo {number} >> ran"], "environment": {"PATH": os.environ["PATH"]},
            "umask": 18, "output": "/dev/null", "error": "/dev/null", "procs": 1, "request_s": 60.0,
        }  # fmt: skip
        ask(self.path, {"submit": job})
        ask(self.path, {"queue": None})

    def verify(self):
        """Wait for the end of all jobs; raise `Failed` if a job ran twice, or its outcome is not true."""
        until = time.monotonic() + 120.0
        while ask(self.path, {"queue": None})["queue"]["jobs"]:
            if time.monotonic() > until:
                raise Failed("jobs are not over")
            time.sleep(0.2)
        file = self.directory / "ran"
        ran = file.read_text().split() if file.exists() else []
        for job in ask(self.path, {"queue": {"all": True}})["queue"]["jobs"][1:]:
            number = job["name"].removeprefix("job-")
            times = ran.count(number)
            if times > 1 or (job["outcome"] == "finished") != (times == 1) or job["outcome"] == "lost":
                raise Failed(f"job {number} ran {times} times: {job['outcome']}, {job['detail']}")


class NodeAndManager(Node):
    """A node manager and its machine manager, with a process that registers and leaves."""

    _policy = "gang"
    # Of a watchdog's interpreter that cannot start; the node manager tries again.
    ignored = ("importlib._bootstrap", "init_fs_encoding", "Fatal Python error")

    def work(self):
        """Register a process, ask for all states, let it leave, and end the watchdog."""
        watchdog = self._cluster.ask("a", "status")["watchdog"]
        if watchdog is not None and self._chance.random() < 0.2:
            os.kill(watchdog, signal.SIGKILL)
        ask(self.path, {"register": {"job": "x", "rank": 0, "ranks": 1, "pid": os.getpid()}})
        self._cluster.ask("a", "view")

    def verify(self):
        """Raise `Failed` unless the node hears its manager again."""
        self._cluster.wait(lambda: self._cluster.hears("a"), within_s=_RECOVERY_S)


class Agents(Daemon):
    """Host agents as `ssh` starts them, one after the other."""

    def _start(self):
        (self.directory / "token").touch()
        self._stderr = self._stack.enter_context(self._log.open("ab"))
        # Ready before the fault: what fails while an interpreter starts is not the agent's.
        self._ready = [self._launched() for _ in range(_AGENTS)]
        self._stack.callback(lambda: [self._ended(agent) for agent in self._ready])

    def work(self):
        """Let one agent serve its run to its end."""
        if not self._ready:
            raise OSError("all agents have ended")
        self._ended(self._ready.pop())

    def probe(self):
        """Raise `Failed` unless an agent runs a command and ends orderly."""
        kinds = self._ended(self._launched())
        if kinds[-1:] != [b"G"]:
            raise Failed(f"an agent answered {kinds}")

    def verify(self):
        """Let the other agents serve their runs after the fault."""
        while self._ready:
            self._ended(self._ready.pop())

    def _launched(self):
        setup = SETUP | {"run_dir": str(self.directory), "directory": "/", "proxies": 1, "environment": {}}
        command = [sys.executable, "-I", "-S", hostagent.__file__, "serve"]
        agent = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=self._stderr)
        agent.stdin.write(frame(b"J", json.dumps(setup).encode()))
        agent.stdin.flush()
        report = b""
        while not report.endswith(b"}"):
            data = os.read(agent.stdout.fileno(), 65536)
            if not data:
                raise Failed(f"an agent did not start: {self._log.read_text()[-2000:]}")
            report += data
        return agent

    def _ended(self, agent):
        order = {"id": 1, "command": ["/bin/true"], "environment": {"A": "b"}}
        orders = frame(b"F", b"input\nx") + frame(b"S", json.dumps(order).encode())
        received, _ = agent.communicate(orders, timeout=60)
        if agent.returncode != 0:
            raise Failed(f"an agent ended with code {agent.returncode}: {self._log.read_text()[-2000:]}")
        return [kind for kind, _ in Unframer().feed(received)]


DAEMONS = {
    "server": WeatherServer,
    "sensor": Sensor,
    "queue": JobQueue,
    "node": NodeAndManager,
    "agent": Agents,
}


def inject(name, plan, seconds, seed, fault):
    """Let the calls of one fault fail in a daemon, and return the answers meanwhile; raise `Failed` if it does harm."""
    calls, number, files = fault
    with patch.dict(os.environ, plan.environment):
        daemon = DAEMONS[name](random.Random(seed))
        entered = daemon.__enter__()
    try:
        entered.work()
        for every in (1, 3):
            path = f"{daemon.directory}/" if files else ""
            with (
                plan.failing(calls, number, every=every, path=path),
                patch.dict(os.environ, plan.environment),
            ):
                answered = _work(entered, seconds / 2.0)
        _recovered(entered)
        entered.verify()
        entered.check()
        return answered
    finally:
        daemon.__exit__()


def _work(daemon, seconds):
    """Make requests; one that is refused or gets no answer counts as none. Return the number that had an answer."""
    until, answered = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            daemon.work()
            answered += 1
        except (OSError, ValueError, TypeError, KeyError, ReportedError):
            time.sleep(0.05)
    return answered


def _recovered(daemon):
    """Wait for the answer to a legal request; raise `Failed` if it is late, or takes too long then."""
    begun = time.monotonic()
    while True:
        daemon.check()
        try:
            daemon.probe()
            break
        except (Failed, OSError, ValueError, TypeError) as error:
            if time.monotonic() - begun > _RECOVERY_S:
                raise Failed(f"does not recover: {error}") from error
            time.sleep(0.1)
    if not isinstance(daemon, Sensor | Agents):
        asked = time.monotonic()
        daemon.probe()
        if time.monotonic() - asked > ANSWER_S:
            raise Failed(f"an answer took {time.monotonic() - asked:.1f} s afterwards")
