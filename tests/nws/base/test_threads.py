"""Pools whose threads all run from the start."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nws.base.errors import WeatherError
from nws.base.threads import start_all, started_pool


def test_all_threads_run_before_the_first_task():
    with started_pool(3, "some") as pool:
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("some")}
        assert len(names) == 3
        assert pool.submit(int, "3").result(timeout=10) == 3


def test_thread_that_cannot_be_started_leaves_none_waiting(monkeypatch):
    start, started = threading.Thread.start, []

    def second_fails(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    pool = ThreadPoolExecutor(3)
    monkeypatch.setattr(threading.Thread, "start", second_fails)
    with pytest.raises(WeatherError, match="a thread cannot be started: end other programs"):
        start_all(pool, 3)
    assert not started[0].is_alive()
