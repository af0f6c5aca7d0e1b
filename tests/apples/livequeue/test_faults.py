"""What no input, no other user and no lack of space or descriptors may do to a queue."""

import json
import os
import pwd
import resource
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import UNSET

from apples.daemons.ipc.eventloop import Loop
from apples.errors import RequestRejected, SharingError
from apples.livequeue import status as requests
from apples.livequeue.inherited import of_process
from apples.livequeue.queueclient import QueueClient, ask
from apples.livequeue.queuepaths import own_socket
from apples.livequeue.status import why
from nws.base.terminal import visible
from tests.transcripts import text_of

#: Lines that ended the manager, or that an honest client never sends.
#: Lines in Python's notation.
MALFORMED = eval(text_of("apples/livequeue/malformed.txt"))

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs other users' processes, which only root can start"
)


@pytest.fixture
def public(monkeypatch):
    """A directory that all users can reach; the queue's socket is in it."""
    with tempfile.TemporaryDirectory(prefix="queue-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("APPLES_QUEUE_SOCKET", f"{name}/queue.sock")
        yield Path(name) / "queue.sock"


@pytest.fixture
def everybodys(public, manager):
    """Root's manager for all users; the path of its socket."""
    manager("--everybody", "--procs", 1, "--socket", public)
    return public


@pytest.fixture
def limited(tmp_path):
    """Options of a manager with limits."""

    def options(**limits):
        path = tmp_path / "limits.yaml"
        path.write_text(json.dumps({"limits": limits}))
        return ("--queue-config", path)

    return options


@contextmanager
def other_user(script, *words, user="nobody"):
    """A Python process of another user; it has printed its first line."""
    account = pwd.getpwnam(user)
    command = ["/usr/bin/python3", "-I", "-c", script, *map(str, words)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def test_malformed_requests_are_refused(manager, cli, tmp_path, state_file):
    call, queue, _ = cli
    one = manager("--procs", 1)
    assert own_socket(state_file()).stat().st_mode & 0o777 == 0o600
    assert state_file().stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
        client.connect(str(own_socket(state_file())))
        refused = {}
        for line in MALFORMED:
            client.sendall(line + b"\n")
            answer = json.loads(answers.readline() or b"{}")
            assert set(answer) == {"refused", "code"} or "cancel" in answer, line[:40]
            refused[line] = answer.get("refused")
    assert "expected one JSON object a line" in refused[b"hello"]
    legal = "'fly' is no request; legal are submit, queue, jobs, why, cancel, hold, release, wait"
    assert legal in refused[b'{"fly": 1}']
    wrong = refused[b'{"submit": {"command": [], "procs": true}}']
    assert "command []: Expected `array` of length >= 1" in wrong
    assert "procs True: Expected `int`, got `bool`" in wrong
    assert "there is no job 99999999999999999999" in call("why", "9" * 20, code=8)
    assert "there is no job" in call("cancel", "9" * 20, code=8)
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    said = call("submit", "--", "true", cwd=odd, code=2)
    assert "directory '" in said
    assert "is not UTF-8 text" in said
    assert queue(True)["jobs"] == []
    assert one.process.poll() is None
    assert "Traceback" not in one.log.read_text()


def test_handler_that_fails_does_not_end_the_loop():
    failed = []
    loop = Loop(failed=lambda error: (failed.append(error), loop.stop()))
    loop.after(0.0, lambda: 1 // 0)
    loop.run()
    loop.close()
    assert [type(error) for error in failed] == [ZeroDivisionError]


@as_root
def test_client_sends_nothing_to_another_users_socket(tmp_path):
    script = (
        "import os, socket, sys\n"
        "one = socket.socket(socket.AF_UNIX)\n"
        "one.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o666); one.listen(); print('ready', flush=True)\n"
        "there, _ = one.accept(); print(len(there.recv(100)), flush=True)\n"
    )
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        path = Path(name) / "queue.sock"
        with other_user(script, path) as process:
            with pytest.raises(SharingError, match=r"listens there; expected user 0 or root"):
                ask("queue", None, path)
            assert process.stdout.readline() == "0\n"


@as_root
def test_idle_connections_of_one_user_lock_nobody_out(everybodys):
    script = text_of("apples/livequeue/idle_connections.txt")
    with other_user(script, everybodys) as process:
        refused = json.loads(process.stdout.readline())
        assert "connections already (limits.connections)" in refused["refused"]
        begun = time.monotonic()
        assert ask("queue").jobs == ()
        assert time.monotonic() - begun < 1.0


@as_root
def test_flood_of_one_user_leaves_others_an_answer(everybodys, request_document):
    junk = request_document("sleep", "600", directory="/")
    script = text_of("apples/livequeue/flood.txt")
    with other_user(script, everybodys, json.dumps(junk)):
        took = []
        for _ in range(10):
            begun = time.monotonic()
            assert len(ask("queue").jobs) == 200
            took.append(time.monotonic() - begun)
    assert max(took) < 1.0


def test_limits_of_one_user_are_refused_by_name(manager, limited, request_document):
    manager("--procs", 2, *limited(waiting=2, processors=5, job_bytes=2000, stored_bytes=2000))
    with QueueClient() as client:
        client.ask("submit", request_document("sleep", "600", procs=2))
        client.ask("submit", request_document())
        for changes, said in (
            ({"command": ["true", "x" * 6_000_000]}, "more than 2000 bytes (limits.job_bytes)"),
            ({"command": ["x" * 1500]}, "at most 2000 are legal (limits.stored_bytes)"),
            ({}, None),
            ({}, "would have 3 waiting jobs, at most 2 are legal (limits.waiting)"),
            ({"procs": 2}, "would request 6 processors together, at most 5 are legal"),
        ):
            if said is None:
                client.ask("submit", request_document(**changes))
                continue
            with pytest.raises(RequestRejected) as caught:
                client.ask("submit", request_document(**changes))
            assert said in str(caught.value)
        assert len(client.ask("queue").jobs) == 3


def test_connections_of_one_user_are_limited(manager, limited):
    manager("--procs", 1, *limited(connections=2))
    with QueueClient() as first, QueueClient(), QueueClient() as third:
        with pytest.raises(RequestRejected, match=r"2 connections already \(limits.connections\)"):
            third.ask("queue")
        assert first.ask("queue").jobs == ()


def test_job_inherits_limits_nice_and_cpus(manager, cli, tmp_path):
    call, _, _ = cli
    manager("--procs", 2)
    cpu = max(os.sched_getaffinity(0))

    def lower():
        os.nice(5)
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 99))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 21))
        os.sched_setaffinity(0, {cpu})

    script = "ulimit -Sn; ulimit -Hn; nice; ulimit -Sf; grep Cpus_allowed_list /proc/self/status"
    command = [*call.__globals__["APPLES"], "submit", "--wait", "-n", "2", "--", "bash", "-c", script]
    subprocess.run(command, preexec_fn=lower, check=True, cwd=tmp_path, timeout=60, capture_output=True)
    assert (tmp_path / "apples-1.out").read_text().split() == [
        "77",
        "99",
        "5",
        "1024",
        "Cpus_allowed_list:",
        str(cpu),
    ]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU only")
def test_jobs_are_held_to_cpus_of_their_own(manager, cli, tmp_path):
    call, queue, eventually = cli
    manager()
    for _ in range(2):
        call(
            "submit", "-n", 1, "--", "sh", "-c", "nproc; while ! [ -e go ]; do sleep 0.05; done", cwd=tmp_path
        )
    eventually(lambda: [job["state"] for job in queue()["jobs"]] == ["running"] * 2)
    cpus = [set(job["cpus"]) for job in queue()["jobs"]]
    assert [len(each) for each in cpus] == [1, 1]
    assert not cpus[0] & cpus[1]
    (tmp_path / "go").touch()
    eventually(lambda: not queue()["jobs"])
    assert (tmp_path / "apples-1.out").read_text() == "1\n"


def test_limits_are_those_of_the_process_and_its_user():
    found = of_process(os.getpid(), os.geteuid())
    assert found.affinity == tuple(sorted(os.sched_getaffinity(0)))
    assert found.rlimits["RLIMIT_NOFILE"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(ProcessLookupError):
        of_process(os.getpid(), os.geteuid() + 1)


def test_control_characters_never_reach_the_terminal(manager, cli, tmp_path):
    call, _, _ = cli
    manager("--procs", 1)
    odd = tmp_path / "a\x1b[31mb"
    odd.mkdir()
    call("submit", "-D", odd, "-o", odd / "none" / "%j", "--wait", "--", "true", code=2)
    assert "name 'a\\x1b[2J': printable characters are legal" in call(
        "submit", "-J", "a\x1b[2J", "--", "true", code=2
    )
    said = call("submit", "-D", odd, "-J", "x", "--", "no\x9bsuch", code=127)
    assert "no\\x9bsuch' is in none of the directories" in said
    call("submit", "--wait", "-D", odd, "--", "sh", "-c", "exit 3", "no\x9bsuch", code=3)
    for text in (said, call("why", 1), call("queue", "--all")):
        assert not {"\x1b", "\x9b"} & set(text)


def test_visible_escapes_controls_and_directions():
    assert visible("a\x1b[31m\n\u202e\udcff é") == "a\\x1b[31m\\n\\u202e\\udcff é"


def test_details_are_the_owners_only(bench, asked, monkeypatch):
    one = bench(processors=1)
    one.at(0, asked(uid=4321))
    with one.store.transaction():
        one.store._db.execute(
            "UPDATE jobs SET state = 'ended', outcome = 'lost', detail = '/secret', ended_at = 1"
        )
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    record = one.store.job(1)
    mine, other, root = (requests.row(one.live, record, uid) for uid in (4321, 1234, 0))
    assert (mine.detail, other.detail, root.detail) == ("/secret", None, "/secret")
    assert (mine.command, other.command) == (("true",), UNSET)
    assert "/secret" in why(one.live, 1)
    assert "/secret" not in why(one.live, 1, private=False)


def test_submission_waits_for_the_next_manager(manager, cli, tmp_path, request_document):
    _, queue, _ = cli
    one = manager("--procs", 1)
    for end in (one.kill, one.end):
        end()
        numbers, document = [], request_document()
        user = threading.Thread(target=lambda d=document, n=numbers: n.append(ask("submit", d, retry=True)))
        user.start()
        time.sleep(0.3)
        assert user.is_alive()
        one.start()
        user.join(60)
        assert len(numbers) == 1
    assert [job["id"] for job in queue(True)["jobs"]] == [1, 2]


@pytest.fixture
def small_disk(tmp_path):
    """A mounted disk of 8 MB, and a function that fills it; the result of that removes the ballast."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", place], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount a disk: {done.stderr.decode().strip()}")

    def fill():
        ballast = place / "ballast"
        with suppress_full(), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with suppress_full(), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"x")
        return ballast.unlink

    yield place, fill
    subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def suppress_full():
    with pytest.raises(OSError, match="No space left"):
        yield


@as_root
def test_full_disk_loses_no_job_that_finishes(manager, cli, tmp_path, small_disk, monkeypatch):
    call, queue, eventually = cli
    place, fill = small_disk
    monkeypatch.setenv("APPLES_STATE", str(place))
    one = manager("--procs", 2)
    go = "while ! [ -e go ]; do sleep 0.02; done; exit 3"
    call("submit", "-o", "/dev/null", "--", "sh", "-c", go, cwd=tmp_path)
    eventually(lambda: queue()["jobs"][0]["state"] == "running")
    free = fill()
    (tmp_path / "go").touch()
    time.sleep(2.5)
    assert one.process.poll() is None
    assert "no room left" in call("submit", "-o", "/dev/null", "--", "true", cwd=tmp_path, code=None)
    free()
    eventually(lambda: not queue()["jobs"])
    (job,) = queue(True)["jobs"]
    assert (job["outcome"], job["exit_code"]) == ("failed", 3)
    call("submit", "--wait", "-o", "/dev/null", "--", "true", cwd=tmp_path)
    assert one.process.poll() is None


def test_without_descriptors_the_manager_goes_on(manager, cli, tmp_path, request_document):
    _, queue, eventually = cli
    one = manager("--procs", 1)
    pid = one.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with QueueClient() as client:
        client.ask("submit", request_document("sh", "-c", "while ! [ -e go ]; do sleep 0.02; done; exit 4"))
        client.ask("submit", request_document("sh", "-c", "echo ran >> runs"))
        eventually(lambda: client.ask("queue").jobs[0].state == "running")
        # No place for the pipes of another process, nor for another connection.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        (tmp_path / "go").touch()
        time.sleep(2.5)
        (second,) = client.ask("queue").jobs
        assert (second.id, second.state) == (2, "starting")
        with pytest.raises(SharingError, match="Too many open files"):
            client.ask("submit", request_document())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        eventually(lambda: not client.ask("queue").jobs)
    assert [(job["outcome"], job["exit_code"]) for job in queue(True)["jobs"]] == [
        ("failed", 4),
        ("finished", 0),
    ]
    assert (tmp_path / "runs").read_text() == "ran\n"
    assert one.process.poll() is None
