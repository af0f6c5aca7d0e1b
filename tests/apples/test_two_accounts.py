"""Root's shared daemons and two ordinary users: what one of them registers and submits leaves the other half."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from apples.errors import SharingError
from apples.livequeue.queueclient import QueueClient, ask
from apples.testing.localcluster import LocalCluster

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs processes of two users, which only root can start"
)

JUNK = 200
SLEEPERS = """
import json, os, signal, socket, sys, time
node, queue, number, document = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
held, children = [], []
for n in range(number):
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.alarm(300)
        while True:
            time.sleep(60)
    children.append(child)
    one = socket.socket(socket.AF_UNIX)
    one.connect(node)
    about = {"job": f"junk{n}", "rank": 0, "ranks": 1, "pid": child, "page": None}
    one.sendall(json.dumps({"register": about}).encode() + b"\\n")
    answer = one.recv(4096)
    assert answer.startswith(b'{"registered"'), answer
    held.append(one)
one = socket.socket(socket.AF_UNIX)
one.connect(queue)
lines = one.makefile()
for n in range(number):
    one.sendall(json.dumps({"submit": {**document, "token": f"junk{n}"}}).encode() + b"\\n")
    answer = lines.readline()
    assert answer.startswith('{"job"'), answer
print("ready", flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, signal.SIGKILL)
"""
SPIN = """
import json, os, socket, sys, time
os.setpgid(0, 0)
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
about = {"job": "mine", "rank": 0, "ranks": 1, "pid": os.getpid(), "page": None}
one.sendall(json.dumps({"register": about}).encode() + b"\\n")
assert one.recv(4096).startswith(b'{"registered"')
print("ready", flush=True)
until = time.monotonic() + 300
while time.monotonic() < until:
    pass
"""
ASK = """
import json, socket, sys, time
begun = time.monotonic()
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
lines = one.makefile()
for request in ({"queue": None}, {"submit": json.loads(sys.argv[2])}):
    one.sendall(json.dumps(request).encode() + b"\\n")
    answer = json.loads(lines.readline())
print("ready", time.monotonic() - begun, answer, flush=True)
"""


@contextmanager
def user(name, script, *words):
    """A Python process of a user that has printed its first line; the words of that."""
    account = pwd.getpwnam(name)
    process = subprocess.Popen(
        ["/usr/bin/python3", "-I", "-S", "-c", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
    )
    try:
        first = process.stdout.readline().split(maxsplit=2)
        assert first[:1] == ["ready"], process.wait(timeout=10)
        yield process, first[1:]
    finally:
        process.stdin.close()
        if script is SPIN:
            process.kill()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.fixture
def site():
    """Root's machine manager with a queue for all users, and root's node manager of one CPU."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="accounts-"))
        stack.callback(shutil.rmtree, directory)
        directory.chmod(0o755)
        queue = ("--queue", directory / "jobs.db", "--everybody", "--socket", directory / "queue.sock")
        made = LocalCluster(
            directory,
            {"a": str(min(os.sched_getaffinity(0)))},
            slice_s=0.05,
            manager_options=tuple(map(str, queue)),
            node_options=("--everybody",),
        )
        stack.enter_context(made)
        made.start()
        yield made


def ready_s(pid):
    """Seconds for which a process has run or was in the run queue: it was not held stopped in them."""
    ran_ns, queued_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return (int(ran_ns) + int(queued_ns)) * 1e-9


def document(token, *command):
    return {
        "token": token,
        "name": "job",
        "project": "",
        "command": list(command),
        "directory": "/",
        "environment": {"PATH": os.defpath},
        "umask": 0o022,
        "output": "/dev/null",
        "error": "/dev/null",
        "procs": 1,
        "request_s": 900,
    }


def test_junk_of_one_user_leaves_another_half_of_the_node(site, record_property):
    queue = site.directory / "queue.sock"
    site.wait(lambda: _answers(queue), within_s=60)
    junk = json.dumps(document("junk", "sleep", "300"))
    with (
        user("daemon", SLEEPERS, site.socket("a"), queue, JUNK, junk),
        user("nobody", SPIN, site.socket("a")) as (mine, _),
    ):
        site.wait(lambda: site.view()["jobs"].get("mine", {}).get("state") == "in")
        assert sum(entry["job"].startswith("junk") for entry in site.ask("a", "status")["processes"]) == JUNK
        begun, before = time.monotonic(), ready_s(mine.pid)
        time.sleep(4.0)
        share = (ready_s(mine.pid) - before) / (time.monotonic() - begun)
        record_property("share of the node", round(share, 3))
        assert 0.45 <= share <= 0.6
        with user("nobody", ASK, queue, json.dumps(document("mine", "true"))) as (_, (took_s, answer)):
            record_property("seconds to the queue's answer", took_s)
            assert float(took_s) < 1.0
            assert "'job': 201" in answer
        with QueueClient(queue) as client:
            client.ask("cancel", [job.id for job in client.ask("queue").jobs])
        site.wait(lambda: not ask("queue", None, queue).jobs)


def _answers(queue):
    try:
        return ask("queue", None, queue)
    except SharingError:
        return None
