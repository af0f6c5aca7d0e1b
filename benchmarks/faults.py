"""Calls of every daemon fail, one kind after the other: no daemon may end or keep a wrong state, and each recovers.

    python benchmarks/faults.py [server] [sensor] [queue] [node] [agent] [--calls write fork] [--seconds 3] [--seed 1]

A real daemon runs with the shim `fault_shim.c`. For each fault, all calls of a kind fail for half of the time, and a
third of them for the other half, while requests go on. Afterwards the daemon must live, answer within a second, have no
traceback in its log, and its state must hold: what the weather server acknowledged is stored, each job of the queue ran
at most once and its outcome is true, the sensor delivers again. `node` is a node manager with its machine manager. A
host agent serves one run: it ends orderly, whatever fails. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fault_plan import BROKEN, NO_DESCRIPTORS, NO_MEMORY, NO_SPACE, Plan
from fuzz_engine import ANSWER_S, Failed
from fuzz_listeners import Daemon, Http, Node, Queue, _ask

from nws.base.errors import ReportedError

#: Calls and their error. Files only, where the error is one of a disk.
FAULTS = (
    ("write", NO_SPACE, True),
    ("write", BROKEN, True),
    ("open", NO_SPACE, True),
    ("open", NO_DESCRIPTORS, False),
    ("fsync", BROKEN, True),
    ("rename", NO_SPACE, True),
    ("mmap", NO_MEMORY, False),
    ("malloc", NO_MEMORY, False),
    ("accept", NO_DESCRIPTORS, False),
    ("socket,pipe", NO_DESCRIPTORS, False),
    ("fork", errno.EAGAIN, False),
)
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

    def _start(self) -> None:
        super()._start()
        self._acknowledged: set[float] = set()
        self._next = float(int(time.time()) - 80_000)

    def work(self) -> None:
        """Deliver some measurements of known and new series, and look at the health."""
        from nws.client.remote import ServiceClient
        from nws.series import Measurement, Series

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

    def verify(self) -> None:
        """Raise `Failed` if an acknowledged measurement is not stored, or stored twice."""
        from nws.client.remote import ServiceClient

        with ServiceClient(self._url) as client:
            found = client.samples("x.power@alpha", since=0.0)["t"]
        if len(set(found)) != len(found) or not self._acknowledged <= set(found):
            raise Failed(f"{len(self._acknowledged - set(found))} acknowledged samples are not stored")

    @property
    def _url(self) -> str:
        assert self.address is not None
        return "http://{}:{}".format(*self.address)


class QuickServer(WeatherServer):
    """A weather server whose sensors measure and probe all the time."""

    _settings = "every: {cpu: 0.2, memory: 0.2, deliver: 0.3}\nframe: 1\nguard: 0.1\n"


class Sensor(Daemon):
    """A sensor daemon that delivers to a weather server, and probes another sensor; both without faults."""

    def _start(self) -> None:
        # The shim is for the sensor alone.
        with patch.dict(os.environ, {"LD_PRELOAD": ""}):
            self._server = self._stack.enter_context(QuickServer(self._chance))
            self._sensor("gamma")
        self._sensor("beta")

    def _sensor(self, host: str) -> None:
        command = (sys.executable, "-m", "nws.cli", "sensor", "--server", self._server._url, "--host", host)
        command += (
            "--spool",
            str(self.directory / f"{host}.db"),
            "--echo-port",
            "0",
            "--address",
            "127.0.0.1",
        )
        self._spawn(*command, ready=lambda: self._newest(host) > 0.0)

    def work(self) -> None:
        """Let the sensor measure and deliver."""
        time.sleep(0.2)

    def probe(self) -> None:
        """Raise `Failed` unless a new measurement arrives."""
        before, until = self._newest(), time.monotonic() + _RECOVERY_S
        while self._newest() <= before:
            if time.monotonic() > until:
                raise Failed(f"no new measurement in {_RECOVERY_S:g} s")
            time.sleep(0.1)

    def verify(self) -> None:
        """Nothing beyond `probe`."""

    def _newest(self, host: str = "beta") -> float:
        document = json.loads(self._server._get(f"/v1/series?host={host}") or b"{}")
        return max((one.get("measured_at") or 0.0 for one in document.get("series", ())), default=0.0)


class JobQueue(Queue):
    """The queue's manager with its supervisors, and jobs that append their number to a file."""

    def _start(self) -> None:
        super()._start()
        _ask(self.path, {"cancel": [1]})
        self._submitted = 0

    def work(self) -> None:
        """Submit a job."""
        self._submitted += 1
        number = self._submitted
        job = {
            "token": f"job-{number}", "name": f"job-{number}", "project": "", "directory": str(self.directory),
            "command": ["sh", "-c", f"echo {number} >> ran"], "environment": {"PATH": os.environ["PATH"]},
            "umask": 18, "output": "/dev/null", "error": "/dev/null", "procs": 1, "request_s": 60.0,
        }  # fmt: skip
        _ask(self.path, {"submit": job})
        _ask(self.path, {"queue": None})

    def verify(self) -> None:
        """Wait for the end of all jobs; raise `Failed` if a job ran twice, or its outcome is not true."""
        until = time.monotonic() + 120.0
        while _ask(self.path, {"queue": None})["queue"]["jobs"]:
            if time.monotonic() > until:
                raise Failed("jobs are not over")
            time.sleep(0.2)
        file = self.directory / "ran"
        ran = file.read_text().split() if file.exists() else []
        for job in _ask(self.path, {"queue": {"all": True}})["queue"]["jobs"][1:]:
            number = job["name"].removeprefix("job-")
            times = ran.count(number)
            if times > 1 or (job["outcome"] == "finished") != (times == 1) or job["outcome"] == "lost":
                raise Failed(f"job {number} ran {times} times: {job['outcome']}, {job['detail']}")


class NodeAndManager(Node):
    """A node manager and its machine manager, with a process that registers and leaves."""

    _policy = "gang"
    # Of a watchdog's interpreter that cannot start; the node manager tries again.
    ignored = ("importlib._bootstrap", "init_fs_encoding", "Fatal Python error")

    def work(self) -> None:
        """Register a process, ask for all states, let it leave, and end the watchdog."""
        watchdog = self._cluster.ask("a", "status")["watchdog"]
        if watchdog is not None and self._chance.random() < 0.2:
            os.kill(watchdog, signal.SIGKILL)
        _ask(self.path, {"register": {"job": "x", "rank": 0, "ranks": 1, "pid": os.getpid()}})
        self._cluster.ask("a", "view")

    def verify(self) -> None:
        """Raise `Failed` unless the node hears its manager again."""
        self._cluster.wait(lambda: self._cluster.hears("a"), within_s=_RECOVERY_S)


class Agents(Daemon):
    """Host agents as `ssh` starts them, one after the other."""

    def _start(self) -> None:
        (self.directory / "token").touch()
        self._stderr = self._stack.enter_context(self._log.open("ab"))
        # Ready before the fault: what fails while an interpreter starts is not the agent's.
        self._ready = [self._launched() for _ in range(_AGENTS)]
        self._stack.callback(lambda: [self._ended(agent) for agent in self._ready])

    def work(self) -> None:
        """Let one agent serve its run to its end."""
        if not self._ready:
            raise OSError("all agents have ended")
        self._ended(self._ready.pop())

    def probe(self) -> None:
        """Raise `Failed` unless an agent runs a command and ends orderly."""
        kinds = self._ended(self._launched())
        if kinds[-1:] != [b"G"]:
            raise Failed(f"an agent answered {kinds}")

    def verify(self) -> None:
        """Let the other agents serve their runs after the fault."""
        while self._ready:
            self._ended(self._ready.pop())

    def _launched(self) -> subprocess.Popen[bytes]:
        from apples.hosts import hostagent
        from apples.hosts.frames import frame

        setup = {"run_dir": str(self.directory), "token": "token", "directory": "/", "proxies": 1}
        setup |= {"watched": None, "look_s": 0.2, "environment": {}, "beat_s": None, "silence_s": None}
        command = [sys.executable, "-I", "-S", hostagent.__file__, "serve"]
        agent = subprocess.Popen(command, stdin=-1, stdout=-1, stderr=self._stderr)
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(frame(b"J", json.dumps(setup).encode()))
        agent.stdin.flush()
        report = b""
        while not report.endswith(b"}"):
            data = os.read(agent.stdout.fileno(), 65536)
            if not data:
                raise Failed(f"an agent did not start: {self._log.read_text()[-2000:]}")
            report += data
        return agent

    def _ended(self, agent: subprocess.Popen[bytes]) -> list[bytes]:
        from apples.hosts.frames import Unframer, frame

        order = {"id": 1, "command": ["/bin/true"], "environment": {"A": "b"}}
        orders = frame(b"F", b"input\nx") + frame(b"S", json.dumps(order).encode())
        received, _ = agent.communicate(orders, timeout=60)
        if agent.returncode != 0:
            raise Failed(f"an agent ended with code {agent.returncode}: {self._log.read_text()[-2000:]}")
        return [kind for kind, _ in Unframer().feed(received)]


DAEMONS: Mapping[str, Callable[[random.Random], Any]] = {
    "server": WeatherServer,
    "sensor": Sensor,
    "queue": JobQueue,
    "node": NodeAndManager,
    "agent": Agents,
}


def inject(
    name: str, plan: Plan, seconds: float, seed: int, faults: tuple[tuple[str, int, bool], ...] = FAULTS
) -> int:
    """Run one daemon through all faults; return the number of failures, each printed."""
    wrong = 0
    for calls, number, files in faults:
        before = plan.failed
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
                    worked = _work(entered, seconds / 2.0)
            result = _recovered(entered)
            entered.verify()
            entered.check()
            count = plan.failed - before
            print(
                f"{name}: {calls} {errno.errorcode[number]}: {count or 'not tested, as no'} calls failed, {worked} "
                f"requests in the second half, recovered after {result:.1f} s",
                flush=True,
            )
        except Failed as error:
            wrong += 1
            print(f"{name}: {calls} {errno.errorcode[number]}: WRONG: {error}", flush=True)
        finally:
            daemon.__exit__()
    return wrong


def _work(daemon: Any, seconds: float) -> int:
    """Make requests; one that is refused or gets no answer counts as none. Return the number that had an answer."""
    until, answered = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            daemon.work()
            answered += 1
        except (OSError, ValueError, TypeError, KeyError, ReportedError):
            time.sleep(0.05)
    return answered


def _recovered(daemon: Any) -> float:
    """Return the seconds until a legal request is answered; raise `Failed` if it is late, or takes too long then."""
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
    recovered_s = time.monotonic() - begun
    if not isinstance(daemon, Sensor | Agents):
        asked = time.monotonic()
        daemon.probe()
        if time.monotonic() - asked > ANSWER_S:
            raise Failed(f"an answer took {time.monotonic() - asked:.1f} s afterwards")
    return recovered_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", choices=[*DAEMONS, []], help="default: all")
    parser.add_argument("--calls", nargs="+", help="only these, such as accept; default: all")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each fault")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import tempfile

    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        plan = Plan(Path(name))
        faults = tuple(fault for fault in FAULTS if not options.calls or fault[0] in options.calls)
        return min(
            sum(inject(one, plan, options.seconds, options.seed, faults) for one in options.which or DAEMONS),
            1,
        )


if __name__ == "__main__":
    sys.exit(main())
