"""Real sensor processes against a stub service; two hosts are two addresses of the loopback interface."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("nws_daemon_stub", Path(__file__).with_name("stub.py"))
_stub = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_stub)


class SensorProcess:
    """`nws sensor` of one host; `end` stops it and tells what it said."""

    def __init__(self, url, host, address, *options, prefix=(), program=("-m", "nws.cli"), **environ):
        command = [*prefix, sys.executable, *program, "sensor", "--server", url, "--host", host]
        self.process = subprocess.Popen(
            [*command, "--address", address, *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environ,
        )
        self.said, self.ended = "", False
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self):
        for line in self.process.stderr:
            with self._news:
                self.said += line
                self._news.notify_all()

    def heard(self, text, timeout_s=30.0):
        """Wait until it says that."""
        with self._news:
            assert self._news.wait_for(lambda: text in self.said, timeout_s), self.said

    def kill(self):
        self.process.kill()
        self.end(None)

    def end(self, number=signal.SIGTERM):
        """Its exit code, after a signal unless that is None."""
        if not self.ended:
            self.ended = True
            if number is not None and self.process.poll() is None:
                self.process.send_signal(number)
            self.process.wait(30)
            self._listener.join()
            with self.process.stdout, self.process.stderr:
                assert self.process.stdout.read() == ""
        return self.process.returncode


@pytest.fixture
def stub():
    """Starts stub services that end with the test."""
    servers = []

    def start(**options):
        servers.append(_stub.StubServer(**options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def sensor():
    """Starts sensors that end with the test."""
    started = []

    def start(*arguments, **options):
        started.append(SensorProcess(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        if not one.ended:
            one.kill()
