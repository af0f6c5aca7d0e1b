"""Lines to stderr: one for each thing, dropped rather than waited for."""

import io
import logging
import re
import sys
import threading

import pytest

from nws.server import serve


class Stuck(io.StringIO):
    """A terminal that nobody reads, until `go`."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def write(self, text):
        self.go.wait(10)
        return super().write(text)


def test_line_has_its_time(capsys, monkeypatch):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    with serve.log_to_stderr():
        logging.getLogger("nws.server.any").info("grid %s", "lab")
        logging.getLogger("nws.server.any").debug("not this")
    assert re.fullmatch(
        r"nws: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} INFO grid lab\n", capsys.readouterr().err
    )
    logging.getLogger("nws.server.any").warning("nor this")
    assert "nor this" not in capsys.readouterr().err


def test_terminal_that_stands_still_holds_nobody_up(monkeypatch):
    stuck = Stuck()
    monkeypatch.setattr(sys, "stderr", stuck)
    monkeypatch.setattr(serve, "MOST_WAITING", 5)
    with serve.log_to_stderr():
        for n in range(100):
            logging.getLogger("nws.server.any").info("line %d", n)
        stuck.go.set()
    # the thread has one line in hand, perhaps, and so many wait; one may give way to the end
    assert 4 <= len(stuck.getvalue().splitlines()) <= 6


@pytest.mark.parametrize("name", ["nws", "uvicorn"])
def test_nothing_is_left_behind(name):
    before = list(logging.getLogger(name).handlers)
    with serve.log_to_stderr():
        pass
    assert logging.getLogger(name).handlers == before
