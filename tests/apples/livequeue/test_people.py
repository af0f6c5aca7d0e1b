"""What people do with the queue: runs that plan themselves, estimates from its own history, other users."""

import getpass
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from apples.livequeue import queueclient
from apples.livequeue.queueclient import QueueClient
from tests.transcripts import recorded


@pytest.fixture
def run_words(cli):
    """The words that start `apples-run`."""
    return cli[0].__globals__["RUN"]


@recorded("apples/livequeue/batch_scripts.txt", "lines", "words")
def test_submit_script_of_sbatch_obeys_or_rejects(answered, lines, words, cli, tmp_path, monkeypatch):
    documents = []
    monkeypatch.setattr(queueclient, "ask", lambda request, document, *_, **__: documents.append(document))
    monkeypatch.setenv("SLURM_NTASKS", "of the outside")
    (tmp_path / "job.sh").write_text("\n".join(["#!/bin/bash", *lines, "true", "#SBATCH --ignored"]))
    (tmp_path / "out").mkdir()
    text = cli[0]("submit", *words, cwd=tmp_path, code=None).replace(str(tmp_path), "DIR")
    for document in documents:
        for name in ("token", "umask"):
            del document[name]
        plain = {
            "procs": 1,
            "request_s": 3600.0,
            "output": "DIR/apples-%j.out",
            "directory": "DIR",
            "name": "job.sh",
        }
        plain |= {"error": document["output"].replace(str(tmp_path), "DIR")}
        slurms = {
            k: v for k, v in sorted(document.pop("environment").items()) if k.startswith("SLURM_") and v
        }
        text = json.dumps({**document, "environment": slurms}).replace(str(tmp_path), "DIR")
        values = {k: v for k, v in json.loads(text).items() if v and plain.get(k) != v}
        text = "\n".join(f"{name}: {json.dumps(value)}" for name, value in sorted(values.items()))
    answered(text.strip())


def test_run_asks_for_what_its_plan_needs_and_passes_its_output_on(
    measured, manager, cli, run_words, small, tmp_path
):
    call, queue, eventually = cli
    manager("--procs", 2)
    words = [*run_words, *small]
    done = subprocess.run(
        [*words, "--queue", "--project", "sun"],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("heat 64x32x32: iteration 20")
    assert "asking for" in done.stderr
    assert "predicted" in done.stderr
    (job,) = queue(True)["jobs"]
    assert (job["name"], job["project"], job["outcome"]) == ("heat-64", "sun", "finished")
    assert job["request_s"] > 30
    assert job["estimate_s"] < job["request_s"]
    assert "--queue" not in job["command"]
    # the tests' environment has a policy, and what the environment says holds for the job, too
    assert job["command"][-10:] == [*small[1:], "--policy", "none"]
    planned = json.loads(
        call("", *small, "--queue", "--dry-run", "-t", "20", program=run_words, cwd=tmp_path)
    )
    assert planned["queue"]["request_s"] == 50.0
    assert "duties" not in planned["queue"]
    shared = ("--queue", "--dry-run", "--oversubscribe")
    asked = json.loads(call("", *small, *shared, program=run_words, cwd=tmp_path))["queue"]
    assert len(asked["duties"]) == asked["procs"]
    assert all(0.0 < duty <= 1.0 for duty in asked["duties"])
    number = int(call("", *small, "--queue", "--detach", "-q", program=run_words, cwd=tmp_path))
    eventually(lambda: not queue()["jobs"])
    assert "heat 64x32x32" in (tmp_path / f"apples-{number}.out").read_text()
    scored = json.loads(call("estimate", "--score", "--json"))["estimators"]
    assert scored["model"]["jobs"] == 2
    said = call("estimate", "--walltime", "1h", "--model", " ".join(small))
    assert said.endswith("of 1 h requested: the performance model's prediction\n")


def test_interrupted_run_is_cancelled(measured, manager, cli, run_words, small, tmp_path, request_document):
    _, queue, eventually = cli
    manager("--procs", 1)
    with QueueClient() as client:
        client.ask("submit", request_document("sleep", "600"))
    waiting = subprocess.Popen(
        [*run_words, *small, "--queue"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: len(queue()["jobs"]) == 2)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(timeout=60) == 130
    waiting.stdout.close()
    waiting.stderr.close()
    assert queue(True)["jobs"][1]["outcome"] == "cancelled"


def test_options_of_a_queued_run_that_will_not_do(cli, run_words):
    call, _, _ = cli
    said = call("", 64, "--detach", "--project", "sun", "--oversubscribe", program=run_words, code=2)
    assert "--oversubscribe is for a run in the queue" in said
    assert "--detach is for a run in the queue; add --queue" in said
    assert "--project is for a run in the queue" in said
    said = call("", 64, "--queue", "--mock", program=run_words, code=2)
    assert "--queue is for real ranks" in said
    assert "start one with `apples manager --queue`" in call("", 64, "--queue", program=run_words, code=7)


def test_queue_is_the_history_of_estimates(manager, cli, tmp_path):
    call, _, _ = cli
    nothing = {"env": {**os.environ, "PATH": "/nowhere"}}
    assert "no sacct here and no queue of ours" in call("estimate", "--walltime", "1h", code=2, **nothing)
    assert "there is no queue; start one" in call("estimate", "--score", code=4)
    config = tmp_path / "queue.yaml"
    config.write_text("estimates: {minimum: 2, floor: 0}\n")
    manager("--procs", 4, "--queue-config", config)
    assert "no job has run to its end yet" in call("estimate", "--score")
    for _ in range(3):
        call("submit", "--wait", "-t", "100s", "-A", "sun", "--", "true", cwd=tmp_path)
    words = ("--walltime", "100s", "--project", "sun", "--user", getpass.getuser(), "--config", config)
    found = json.loads(call("estimate", *words, "--json", **nothing))
    assert (found["source"], found["similar"]) == ("history", 3)
    broken = tmp_path / "bin" / "sacct"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no cluster here >&2\nexit 1\n")
    broken.chmod(0o755)
    beside = {"env": {**os.environ, "PATH": f"{broken.parent}:/bin"}}
    assert json.loads(call("estimate", *words, "--json", **beside))["similar"] == 3
    assert 1.0 <= found["estimate_s"] < 60.0
    assert call("estimate", "--score").splitlines()[0].split() == [
        "source",
        "jobs",
        "accuracy",
        "ran",
        "longer",
    ]
    said = call("estimate", *words, "--model", "64 --app jacobi2d", code=None, **nothing)
    assert "no estimate of the model: jacobi2d is not calibrated" in said
    assert "of 1 min 40 s requested: percentile 85 of 3 similar jobs" in said
    assert "expected the words after `apples-run`" in call("estimate", *words, "--model", "big", code=2)
    assert "--walltime TIME is missing" in call("estimate", code=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's manager serves other users")
def test_queue_for_everybody_runs_jobs_as_their_users(manager, cli, monkeypatch, request_document):
    _, queue, eventually = cli
    nobody = pwd.getpwnam("nobody")
    place = Path(tempfile.mkdtemp(prefix="queue-"))
    try:
        place.chmod(0o755)
        work = place / "work"
        work.mkdir()
        os.chown(work, nobody.pw_uid, nobody.pw_gid)
        monkeypatch.setenv("APPLES_QUEUE_SOCKET", str(place / "queue.sock"))
        one = manager("--procs", 1, "--everybody", "--socket", place / "queue.sock")
        documents = [
            request_document("sh", "-c", "id -un; sleep 600", directory=str(work)),
            request_document(directory=str(work)),
        ]
        documents[0]["output"] = documents[0]["error"] = str(work / "out")
        assert [
            answer["job"] for answer in _as(nobody, place, [{"submit": document} for document in documents])
        ] == [
            1,
            2,
        ]
        eventually(lambda: (work / "out").exists() and (work / "out").read_text() == "nobody\n")
        assert (work / "out").stat().st_uid == nobody.pw_uid
        assert queue()["jobs"][0]["user"] == "nobody"
        with QueueClient() as client:
            client.ask("submit", request_document(directory=str(work)))
        (refused,) = _as(nobody, place, [{"cancel": [3]}])
        assert "job 3 belongs to root; only its owner may cancel it" in refused["cancel"][0]["refused"]
        (seen,) = _as(nobody, place, [{"queue": {}}])
        assert ["command" in job for job in seen["queue"]["jobs"]] == [True, True, False]
        (done,) = _as(nobody, place, [{"cancel": [1]}])
        assert done["cancel"] == [{"job": 1, "is": "ending"}]
        eventually(lambda: not queue()["jobs"])
        assert one.end() == 0
    finally:
        shutil.rmtree(place)


def _as(user, place, lines):
    """Answers to lines that a process of another user sends."""
    script = (
        "import json, socket, sys\n"
        "one = socket.socket(socket.AF_UNIX)\n"
        f"one.connect({str(place / 'queue.sock')!r})\n"
        "lines = sys.stdin.buffer.readlines()\n"
        "one.sendall(b''.join(lines))\n"
        "answers = one.makefile('rb')\n"
        "for _ in lines: sys.stdout.buffer.write(answers.readline())\n"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", script],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        user=user.pw_uid,
        group=user.pw_gid,
        cwd="/",
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
