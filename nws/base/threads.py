"""Thread pools whose threads all run from the start.

CPython waits without end for a thread that found no memory to begin, so a daemon starts its threads before it works.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from nws.base.errors import WeatherError


def start_all(pool: ThreadPoolExecutor, threads: int) -> None:
    """Start all threads of a new pool; raises `WeatherError`, with the pool shut down, if one cannot be started."""
    ready = threading.Barrier(threads)
    try:
        for _ in range(threads):
            pool.submit(ready.wait)
    except (RuntimeError, MemoryError) as error:
        ready.abort()
        pool.shutdown()
        raise WeatherError(
            "a thread cannot be started: end other programs of this user, or raise the limits of processes (ulimit -u) "
            "and memory"
        ) from error


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool with all its threads started; raises `WeatherError`. name : prefix of their names"""
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    start_all(pool, threads)
    return pool
