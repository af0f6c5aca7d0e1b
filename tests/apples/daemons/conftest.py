"""Processes, pages and nodes that are not real, and a cluster of daemons that are."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Process
from apples.coscheduling.policies import POLICIES, CoschedulingConstants
from apples.daemons.managednode import ManagedNode
from apples.daemons.nodemessages import JobView, MatrixRow, MatrixView
from apples.daemons.processes import ProcessRegistration
from apples.errors import MonitorError
from tests.testbed.localcluster import LocalCluster


class FakeControl:
    """A process that does as it is told. log : shared by all, who was told what"""

    def __init__(self, name, log, *, quota=False):
        self.name, self.log, self.quota = name, log, quota
        self.is_stopped, self.cpu, self.closed = False, 0.0, False
        self.ready = None

    def stop(self):
        if not self.is_stopped:
            self.log.append(f"stop {self.name}")
        self.is_stopped = True

    def resume(self):
        self.log.append(f"resume {self.name}")
        self.is_stopped = False

    def stopped(self):
        return self.is_stopped

    def favour(self, on):
        self.log.append(f"{'favour' if on else 'unfavour'} {self.name}")

    def renice(self, steps):
        self.log.append(f"nice {self.name} {steps}")

    def limit(self, processors):
        self.log.append(f"limit {self.name} {processors}")
        return self.quota

    def cpu_s(self):
        return self.cpu

    def ready_s(self):
        return self.ready

    def guards(self):
        return []

    def close(self):
        self.closed = True


class FakePage:
    """A monitor page. spoilt : every method raises"""

    def __init__(self, name, log):
        self.name, self.log = name, log
        self.counted, self.wanted, self.stopped_s, self.spoilt = MonitorCounts(), 0, 0.0, False
        self.ran_s, self.threads = 0.0, 1

    def _check(self):
        if self.spoilt:
            raise MonitorError("no page any more")

    def times(self, held_since_s=None):
        self._check()
        self.held_since_s = held_since_s
        return SimpleNamespace(
            reading=self.counted, ran_s=self.ran_s, threads=self.threads, off_s=0.0, queued_s=0.0
        )

    def set_wait(self, wait, spin_s=0.0):
        self._check()
        self.log.append(f"wait {self.name} {'own' if wait is None else wait.value}")

    def add_stopped(self, seconds):
        self._check()
        self.stopped_s += seconds
        self.log.append(f"stopped {self.name} {seconds:g}")

    def set_scheduled(self, scheduled):
        self._check()
        self.log.append(f"{'scheduled' if scheduled else 'not scheduled'} {self.name}")

    def requests(self):
        self._check()
        return self.wanted

    def close(self):
        self.log.append(f"close page {self.name}")


class Bench:
    """A node of fakes. log : everything that was done to processes, in order"""

    def __init__(self, policy, processors=1, **constants):
        self.log = []
        self.node = ManagedNode(processors, POLICIES[policy], CoschedulingConstants(**constants))
        self.controls, self.pages = {}, {}

    def add(self, job, rank=0, ranks=1, now=0.0, *, page=True, quota=False, known=None):
        name = f"{job}.{rank}"
        registration = ProcessRegistration(
            process=Process(job, rank), ranks=ranks, pid=1000 + rank, uid=7, started=1
        )
        self.controls[name] = FakeControl(name, self.log, quota=quota)
        self.pages[name] = FakePage(name, self.log) if page else None
        return self.node.add(registration, self.controls[name], self.pages[name], now, known=known)

    def learn(self, *rows, waiting=(), version=1, settled=True, now=0.0):
        """Rows of one processor each name their job; who waits has no row."""
        jobs = {job: JobView(slot=slot, nodes=("a",), processors={0: 0}) for slot, job in enumerate(rows)}
        jobs |= {job: JobView(slot=None, nodes=("a",), processors={0: 0}) for job in waiting}
        view = MatrixView(
            version=version,
            settled=settled,
            rows={slot: MatrixRow(jobs={0: job}) for slot, job in enumerate(rows)},
            jobs=jobs,
        )
        self.node.learn(view, now)

    def beat(self, slot, now, *, may_stop=True):
        self.node.heartbeat(slot, now)
        return self.node.enforce(now, may_stop=may_stop)

    def done(self):
        """What was done since the last time this was asked."""
        found, self.log[:] = list(self.log), []
        return found


@pytest.fixture
def bench():
    """Makes a `Bench`."""
    return Bench


@pytest.fixture
def local_cluster():
    """Makes a `LocalCluster`, in a directory whose path is short enough for sockets."""
    with ExitStack() as stack:

        def make(nodes=None, **options):
            directory = Path(tempfile.mkdtemp(prefix="cluster-"))
            stack.callback(shutil.rmtree, directory)
            return stack.enter_context(LocalCluster(directory, nodes or {"a": "0"}, **options))

        yield make


@pytest.fixture(scope="module")
def shared_cluster():
    """Returns a started cluster of one node by policy, for the tests of a module that leave it as it was."""
    made = {}
    with ExitStack() as stack:

        def start(policy):
            if policy not in made:
                directory = Path(tempfile.mkdtemp(prefix="cluster-"))
                stack.callback(shutil.rmtree, directory)
                made[policy] = stack.enter_context(LocalCluster(directory, {"a": "0"}, policy=policy))
                if POLICIES[policy].coordinated:
                    made[policy].start()
                else:
                    made[policy].start_node("a", managed=False)
            return made[policy]

        yield start
