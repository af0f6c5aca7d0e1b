"""Ranks that share CPUs with others wait adaptively, and the report says so."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from apples.coscheduling.events import Wait
from apples.coscheduling.policies import policy_kind
from apples.errors import MonitorError
from apples.model.grid import Estimate, Host, Snapshot
from apples.model.runrequest import RunRequest
from apples.monitoring import job
from apples.run.loop import AttemptLoop
from apples.testing import finished


class FakeMonitor:
    """A monitor of two ranks; `waits` are those that it was asked for."""

    def __init__(self, **options):
        self.waits = []
        chosen = {"best_wait": "block", "wait_costs": {"mpi": 1.5, "block": 1.0}}
        idle = {"best_wait": None, "wait_costs": {}}
        self.figures = [SimpleNamespace(sleeps=7, **idle), SimpleNamespace(sleeps=3, **chosen)]

    def environment(self, run_dir, wait=None):
        self.waits.append(wait)
        return {"LD_PRELOAD": "monitor.so"}

    def collect(self, run_dir):
        pass

    def document(self):
        rank = {"finalized": True, "communication_s": 4.0, "cpu_s": 3.5, "compute_cpu_s": 3.0}
        ended = [
            rank,
            rank | {"communication_s": 1.0, "cpu_s": 2.9},
            rank | {"finalized": False, "cpu_s": None},
        ]
        return {"observation": {"ranks": ended}}


@pytest.fixture
def busy(bench):
    """Runs a request on a host of two CPUs of which a new process gets this share; returns the record."""

    def make(share, runs=1, **request):
        desk = bench(Host(name="alpha", slots=2), script=[finished(1.0)] * runs)
        nominal = Snapshot.nominal(desk.platform.pool, memory_bytes=8e9, taken_at=1.7e9)
        conditions = replace(
            nominal.conditions[0], availability=Estimate(value=share), capacity=Estimate(value=2 * share)
        )
        desk.platform.weather = replace(nominal, conditions=(conditions,))
        asked = RunRequest(size=800, template=desk.toy, overrides={"ranks": 2}, **request)
        records = []
        for _ in range(runs):
            loop = AttemptLoop(desk.agent, asked)
            records.append(loop.run(loop.decide()))
        return records[-1], desk

    return make


def test_ranks_on_shared_cpus_wait_adaptively(busy, monkeypatch):
    made = []
    monkeypatch.setattr(job, "MonitoredRun", lambda job: made.append(FakeMonitor()) or made[0])
    record, desk = busy(0.5, adaptive_waits=True)
    assert made[0].waits == [Wait.ADAPTIVE]
    assert desk.platform.launcher.requests[0].environment == {"LD_PRELOAD": "monitor.so"}
    assert record.sharing == {
        "policy": "auto",
        "waits": "adaptive",
        "why": {"alpha": "2 ranks, 50% of a CPU each"},
        "waited_s": 5.0,
        "used_s": 0.5,
        "sleeps": 10,
        "quarters": 2,
        "best": "block",
        "costs": {"mpi": 1.5, "block": 1.0},
    }
    assert any("alpha: 2 ranks, 50% of a CPU each" in line for line in desk.said)


def test_next_run_begins_with_the_best_wait_of_the_last(busy):
    _, desk = busy(0.5, runs=2, adaptive_waits=True, monitor=FakeMonitor())
    first, second = (request.environment for request in desk.platform.launcher.requests)
    assert "APPLES_WAIT_FIRST" not in first
    assert second["APPLES_WAIT_FIRST"] == "block"


@pytest.mark.parametrize(("share", "wanted"), [(0.95, True), (0.5, False)], ids=["own CPUs", "switched off"])
def test_ranks_wait_as_their_mpi_does_otherwise(busy, monkeypatch, share, wanted):
    monkeypatch.setattr(job, "MonitoredRun", lambda job: pytest.fail("no monitor is wanted"))
    record, desk = busy(share, adaptive_waits=wanted)
    assert record.sharing == {}
    assert desk.platform.launcher.requests[0].environment == {}


def test_ranks_of_a_monitored_run_wait_adaptively_too(busy):
    monitor = FakeMonitor()
    record, _ = busy(0.5, adaptive_waits=True, monitor=monitor)
    assert monitor.waits == [Wait.ADAPTIVE]
    assert record.sharing["waits"] == "adaptive"


def test_shared_cpus_without_a_compiler_are_noted(busy, monkeypatch):
    def refuse(job):
        raise MonitorError("no C compiler")

    monkeypatch.setattr(job, "MonitoredRun", refuse)
    record, desk = busy(0.5, adaptive_waits=True)
    assert record.sharing == {}
    assert any("do not leave them to others: no C compiler" in line for line in desk.said)


@pytest.mark.parametrize(
    ("policy", "environment", "monitored"),
    [
        ("fcs", {}, ["ours"]),
        ("fcs", {"APPLES_MONITOR": "/dev/shm/pages"}, []),
        ("gang", {}, []),
        (None, {}, ["ours"]),
    ],
)
def test_under_a_policy_node_managers_say_how_ranks_wait(busy, monkeypatch, policy, environment, monitored):
    made, monitor = [], FakeMonitor()
    monkeypatch.setattr(job, "MonitoredRun", lambda job: made.append(job) or monitor)
    kind = None if policy is None else policy_kind(policy)
    observed = {} if policy is None else {"policy": policy}
    settled = []
    sharing = SimpleNamespace(kind=kind, job="ours", settle=settled.append, observed=lambda: observed)
    record, _ = busy(0.3, adaptive_waits=True, sharing=sharing, environment=environment)
    assert settled == [("alpha",)]
    assert made == monitored
    assert monitor.waits == [Wait.ADAPTIVE if policy is None else None] * len(monitored)
    assert record.sharing["policy"] == (policy or "auto")
