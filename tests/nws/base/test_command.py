"""`run_program` in processes of its own: exit codes, messages, signals and broken output streams."""

import os
import subprocess
import sys

import pytest

from tests.transcripts import recorded, text_of

PROGRAM = text_of("nws/base/command_program.txt")


def run(action, redirection="", **options):
    words = ["sh", "-c", f'exec "$0" -c "$1" "$2" {redirection}', sys.executable, PROGRAM, action]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30, **options)
    return done.returncode, done.stdout, done.stderr


@recorded("nws/base/program_ends.txt", "action")
def test_run_program_reports_errors_in_one_message(answered, action):
    answered(repr(run(action)))


@pytest.mark.parametrize(
    ("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGUSR1", 138), ("SIGUSR2", 140)]
)
def test_run_program_unwinds_when_terminated(number, code):
    action = f"try: os.kill(os.getpid(), signal.{number})\nfinally: print('cleaned')"
    assert run(action) == (code, "cleaned\n", f"tool: ended by signal {number.removeprefix('SIG')}\n")


def test_run_program_keeps_an_ignored_signal_ignored():
    assert run("os.kill(os.getpid(), signal.SIGHUP)", preexec_fn=_ignore_hangup) == (0, "", "")


def _ignore_hangup():
    import signal

    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@pytest.mark.parametrize("action", ["click.echo('x')", "print('x')", "sys.stdout.write('x'); sys.exit(0)"])
def test_run_program_full_stdout_is_one_line_and_exit_1(action):
    assert run(action, ">/dev/full") == (1, "", "tool: [Errno 28] No space left on device\n")


def test_run_program_closed_stdout_is_one_line_and_exit_1():
    assert run("print('x')", ">&-") == (1, "", "tool: standard output is closed\n")


def test_run_program_closed_stdin_and_stderr_are_replaced():
    action = "assert open('/dev/null').fileno() > 2; sys.stderr.write('lost'); print(sys.stdin.read())"
    assert run(action, "<&- 2>&-") == (0, "\n", "")


def test_run_program_full_stderr_keeps_the_exit_code():
    assert run("raise StoreError('no room')", "2>/dev/full") == (4, "", "")


@pytest.mark.parametrize("action", ["click.echo('x', err=True)", "print('x', file=sys.stderr, flush=True)"])
def test_run_program_unwritable_stderr_ends_no_run(action):
    assert run(f"{action}; print('done')", "2>/dev/full") == (0, "done\n", "")


def test_run_program_goes_on_when_reader_of_stderr_left():
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", PROGRAM, "click.echo('x', err=True); print('done')"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=writer, text=True, check=False, timeout=30)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_run_program_broken_pipe_is_silent():
    script = '"$0" -c "$1" "print(200000 * \'x\')" | head -c 1; exit ${PIPESTATUS[0]}'
    words = ["bash", "-c", script, sys.executable, PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (1, "x", "")
