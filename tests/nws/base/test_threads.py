"""Pools whose threads all run from the start."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nws.base.threads import start_all, started_pool


def test_all_threads_run_before_the_first_task():
    with started_pool(3, "some") as pool:
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("some")}
        assert len(names) == 3
        assert pool.submit(int, "3").result(timeout=10) == 3


def test_a_thread_that_cannot_be_started_leaves_none_waiting(monkeypatch):
    start, started = threading.Thread.start, []

    def second_fails(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    with ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr(threading.Thread, "start", second_fails)
        with pytest.raises(RuntimeError, match="new thread"):
            start_all(pool, 3)
        monkeypatch.undo()
    assert not started[0].is_alive()
