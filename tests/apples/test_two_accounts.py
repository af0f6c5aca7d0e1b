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
from tests.testbed.localcluster import LocalCluster
from tests.transcripts import text_of

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs processes of two users, which only root can start"
)

JUNK = 200
SLEEPERS = text_of("apples/accounts/sleepers.txt")
SPIN = text_of("apples/accounts/spin.txt")
ASK = text_of("apples/accounts/ask.txt")


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
