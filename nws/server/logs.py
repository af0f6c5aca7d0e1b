"""Log lines of the service to stderr, written by a thread, so that a blocked terminal does not block the service.

Each line has its time, unless a journal reads and adds it. Lines that cannot be written for long are dropped.
"""

import contextlib
import logging
import os
import queue
import sys
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener

#: Maximum number of lines in the queue; beyond it new lines are dropped.
MOST_WAITING = 1000


class _Waiting(QueueHandler):
    """A handler that puts lines into a bounded queue."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue the record, or drop it if the queue is full."""
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


class _Writer(QueueListener):
    """The thread that writes the lines."""

    def __init__(self, waiting: queue.Queue[logging.LogRecord], handler: logging.Handler) -> None:
        super().__init__(waiting, handler)
        self._lines = waiting

    def enqueue_sentinel(self) -> None:
        """Signal the end to the thread; if the queue is full, drop a line for that."""
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
    """Log lines of the weather service, and errors of its HTTP libraries, to stderr while this context is open."""
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
