"""Notices that this host ends, from metadata servers as their providers document them, a file and signals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from apples.cli.toolbox import toolbox
from apples.hosts import notices

#: What each provider demands of a question, and the status of one without it.
DEMANDS = {
    "aws": ("X-aws-ec2-metadata-token", "t1", 401),
    "gcp": ("Metadata-Flavor", "Google", 403),
    "azure": ("Metadata", "true", 400),
}
SPOT = (200, '{"action": "terminate", "time": "2026-11-29T06:00:00Z"}')
GONE, BUSY, TRUE = (404, ""), (503, ""), (200, "TRUE")
VALUES = {"compute/name": [(200, "Vm-1")], "maintenance": [(200, "NONE")], "preempted": [(200, "FALSE")]}


def events(*events):
    keys = ("EventType", "Resources", "NotBefore")
    return 200, json.dumps({"Events": [dict(zip(keys, (*event, ""), strict=False)) for event in events]})


@pytest.fixture
def metadata(monkeypatch):
    """Starts a provider's server. answers : by a word of the path, one for each question; the last one stays."""
    for limit, value in (("EVERY_S", 0.01), ("ANSWER_S", 0.3), ("WHOLE_S", 0.3)):
        monkeypatch.setattr(notices, limit, value)
    servers = []

    def start(kind, answers):
        left = {word: list(replies) for word, replies in {**VALUES, **answers}.items()}

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                self.reply(200 if int(self.headers["X-aws-ec2-metadata-token-ttl-seconds"]) else 400, "t1")

            def do_GET(self):
                header, value, status = DEMANDS[kind]
                replies = next((left[word] for word in reversed(left) if word in self.path), [GONE])
                reply = replies.pop(0) if len(replies) > 1 else replies[0]
                self.reply(*(reply if self.headers[header] == value else (status, "")))

            def reply(self, status, body, headers=(), pause_s=0.0):
                time.sleep(pause_s)
                self.send_response(status)
                for name, content in dict(headers).items():
                    self.send_header(name, content)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *words):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("kind", "word", "replies", "notice", "problem"),
    [
        ("aws", "instance-action", [GONE, SPOT], "SpotInterruption(action='terminate', time='2026-", ""),
        ("aws", "rebalance", [(200, '{"noticeTime": "now"}')], "RebalanceRecommendation", ""),
        ("aws", "instance-action", [BUSY, SPOT], "Spot", "answered 503"),
        ("aws", "instance-action", [(200, "<html>"), (200, "{}"), SPOT], "Spot", "malformed"),
        ("aws", "instance-action", [(200, "[" * 65_000), SPOT], "Spot", "asking again"),
        ("aws", "instance-action", [(200, " " * 65_537), SPOT], "Spot", "too long"),
        ("aws", "instance-action", [(302, "", {"Location": "/x"}), SPOT], "Spot", "answered 302"),
        ("aws", "instance-action", [(200, "", {}, 0.5), SPOT], "Spot", "no answer"),
        ("gcp", "preempted", [(200, "FALSE"), TRUE], "preempted", ""),
        ("gcp", "last_etag=a", [TRUE], "preempted", ""),
        ("gcp", "maintenance", [(200, "MIGRATE_ON_HOST_MAINTENANCE"), BUSY,
                                (200, "TERMINATE_ON_HOST_MAINTENANCE")], "TERMINATE_ON_HOST", "answered 503"),
        ("gcp", "preempted", [GONE, TRUE], "preempted", "illegal values None"),
        ("azure", "scheduled", [events(("Freeze", ["vm-1"]), ("Reboot", ["vm-2"])), (429, ""),
                                events(("Preempt", ["vm-2", "vm-1"], "then"))], "Preempt not before then", "429"),
        ("azure", "scheduled", [events(("Terminate", ["VM-1"]))], "Terminate not before now", ""),
    ],
)  # fmt: skip
def test_notice_of_a_provider_ends_the_wait(metadata, kind, word, replies, notice, problem):
    lines = []
    etag = {"last_etag=0": [(200, "FALSE", {"ETag": "a"})]} if word == "last_etag=a" else {}
    endpoint = metadata(kind, {word: replies, **etag})
    assert notices.await_notice(kind, endpoint, lines.append).startswith(f"{kind}: {notice}")
    assert lines.pop(0) == f"waiting for a notice of {kind}"
    assert problem in lines[0] if problem else not lines


@pytest.mark.parametrize(
    ("source", "announce", "why"),
    [
        ("slurm", signal.SIGUSR1, "SIGUSR1 to the watcher"),
        ("kubernetes", signal.SIGTERM, "SIGTERM to the watcher"),
        ("absent", "", "absent announces it"),
        ("empty", "soon\n", "empty announces it"),
    ],
)
def test_drain_watch_drains_hosts_when_announced(monkeypatch, tmp_path, source, announce, why):
    informed = []
    # Host agents of other tests are on this machine.
    monkeypatch.setattr(notices, "notify_agents", lambda: informed.append(1) or 1)
    monkeypatch.setattr(notices, "EVERY_S", 0.01)
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    action = Path(source).write_text if isinstance(announce, str) else signal.raise_signal
    timer = threading.Timer(0.1, action, (announce,))
    timer.start()
    done = CliRunner().invoke(toolbox, ["drain", "beta", "--watch", source])
    timer.join()
    assert done.stdout == "beta is drained (apples drain --undo beta)\n"
    assert f"{why}: draining beta; 1 run over ssh informed" in done.stderr
    assert informed == [1]


def test_drain_watch_interrupted_drains_nothing(metadata, tmp_path):
    endpoint = metadata("gcp", {"preempted": [(200, "FALSE", {}, 4.0)]})
    apples = str(Path(sys.executable).with_name("apples"))
    command = [apples, "drain", "--watch", "gcp", "--endpoint", endpoint]
    environment = {**os.environ, "APPLES_STATE": str(tmp_path)}
    watch = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert "waiting for a notice" in watch.stderr.readline()
    watch.terminate()
    began = time.monotonic()
    assert watch.communicate()[1].endswith("apples: ended by signal TERM\n")
    assert time.monotonic() - began < 2.0
    assert not (tmp_path / "drained.json").exists()
