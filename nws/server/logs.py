"""Lines of the service to stderr, written by a thread of their own: a terminal that stands still holds nobody up.

Each line has its time, unless a journal that adds it reads them. What cannot be written for long is dropped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener

#: Lines that wait to be written; of more the newest are lost.
MOST_WAITING = 1000


class _Waiting(QueueHandler):
    """Puts lines in a queue that has an end."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Leave the record for the thread, or drop it."""
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


class _Writer(QueueListener):
    """The thread that writes them."""

    def __init__(self, waiting: queue.Queue[logging.LogRecord], handler: logging.Handler) -> None:
        super().__init__(waiting, handler)
        self._lines = waiting

    def enqueue_sentinel(self) -> None:
        """Tell the thread to end, in place of a line where there is no room."""
        while True:
            try:
                super().enqueue_sentinel()
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._lines.get_nowait()
            else:
                return


@contextlib.contextmanager
def log_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Lines of the weather service, and errors of what carries it, to stderr as long as this is open."""
    when = "" if "JOURNAL_STREAM" in os.environ else "%(asctime)s "
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(logging.Formatter(f"nws: {when}%(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(MOST_WAITING)
    listener = _Writer(waiting, stream)
    handler = _Waiting(waiting)
    loggers = [logging.getLogger(name) for name in ("nws", "uvicorn")]
    before = loggers[0].level
    loggers[0].setLevel(level)
    for logger in loggers:
        logger.addHandler(handler)
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        loggers[0].setLevel(before)
        for logger in loggers:
            logger.removeHandler(handler)
