"""A queue of 1,000 jobs whose manager is killed, and lacks disk and descriptors for a while."""

import pytest


def test_queue_failures_run_each_job_once(seed, monkeypatch):
    live_queue = pytest.importorskip("benchmarks.live_queue", reason="benchmarks are not installed")
    monkeypatch.delenv("APPLES_STATE")
    assert live_queue.failures(full=5, scarce=5, every=5.0, seed=seed) == 0
