"""Numbers and tables for people."""

import os
import pty
import subprocess
import sys

import pytest

from nws.cli.tables import duration, echo_table, quantity
from tests.transcripts import recorded


@recorded("nws/cli/quantities.txt", "value", "unit")
def test_quantities(answered, value, unit):
    answered(quantity(value, unit))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4, "4 s"), (119, "119 s"), (720, "12 min"), (12600, "3.5 h"), (181440, "2.1 d"), (-300, "in 5 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_plain_columns_where_there_is_no_terminal(capsys):
    echo_table(["name", "n", ""], [["a", "1", ""], ["bb", "22", "stale"]], numbers=[1])
    assert capsys.readouterr().out == "name   n\na      1\nbb    22  stale\n"


@pytest.fixture
def on_a_terminal():
    """Runs a table with one stale row on a real terminal and returns what the terminal was sent."""

    def run(**environ):
        environ = {"COLUMNS": "80", **environ}
        code = "from nws.cli.tables import echo_table; echo_table(['name', ''], [['a', 'stale']])"
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        ours, theirs = pty.openpty()
        try:
            subprocess.run(
                [sys.executable, "-c", code],
                stdout=theirs,
                env=plain | {"TERM": "xterm-256color"} | environ,
                check=True,
            )
            return os.read(ours, 10_000).decode()
        finally:
            os.close(ours)
            os.close(theirs)

    return run


def test_terminal_sees_stale_rows_in_colour(on_a_terminal):
    assert "\x1b[33m" in on_a_terminal()


def test_no_color_is_honoured(on_a_terminal):
    said = on_a_terminal(NO_COLOR="1")
    assert "stale" in said
    assert "\x1b[33m" not in said
