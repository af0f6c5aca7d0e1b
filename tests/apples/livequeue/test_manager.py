"""The manager as a process: what people ask it, what a kill -9 leaves, and that every job runs exactly once."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections import Counter

import pytest

from apples.errors import SharingError
from apples.livequeue.queueclient import NoManager, QueueClient


def test_jobs_from_submission_to_end(manager, cli, tmp_path):
    call, queue, eventually = cli
    manager("--procs", 2)
    call("submit", "-n", 2, "-t", "1h", "-J", "long", "-A", "sun", "--", "sleep", "600", cwd=tmp_path)
    assert call("submit", "-n", 1, "-t", "30m", "--", "sh", "-c", "echo it ran", cwd=tmp_path) == "2\n"
    assert json.loads(call("submit", "--json", "-n", 2, "--", "true", cwd=tmp_path)) == {
        "version": 1,
        "job": 3,
    }
    eventually(lambda: queue()["jobs"][0]["state"] == "running")
    found = json.loads(call("queue", "--json"))
    states = {job["id"]: (job["state"], job["position"]) for job in found["jobs"]}
    assert states == {1: ("running", None), 2: ("waiting", 1), 3: ("waiting", 2)}
    long, second, _ = found["jobs"]
    assert (long["name"], long["project"], long["procs"], long["request_s"]) == ("long", "sun", 2, 3600.0)
    assert second["start_late"] == pytest.approx(long["start"] + 3600, abs=1)
    table = call("queue").splitlines()
    assert table[0].startswith("0 of 2 processors free, 2 jobs waiting; priority wfp, backfill easy")
    assert "job 2 waits for 1 processor, 0 are free; job 1 is expected to end in" in call("why", 2)
    assert call("cancel", 1, 3) == "job 1: ending\njob 3: cancelled\n"
    eventually(lambda: not queue()["jobs"])
    assert (tmp_path / "apples-2.out").read_text() == "it ran\n"
    ended = {job["id"]: job["outcome"] for job in queue(True)["jobs"]}
    assert ended == {1: "cancelled", 2: "finished", 3: "cancelled"}
    assert "job 1 ended at" in call("why", 1)
    assert "job 3 was cancelled at" in call("why", 3)
    assert "job 2 is over already" in call("cancel", 2, code=6)


def test_held_job_and_those_after_it_run_when_it_is_released(manager, cli, tmp_path):
    call, queue, _ = cli
    made = manager("--procs", 1)
    call("submit", "--hold", "--", "false", cwd=tmp_path)
    call("submit", "--after", "failed:1", "--", "true", cwd=tmp_path)
    call("submit", "--after", "ok:1,any:2", "--", "true", cwd=tmp_path)
    call("submit", "--after", "any:3", "--", "true", cwd=tmp_path)
    states = {job["id"]: (job["held"], job["after"]) for job in queue()["jobs"]}
    assert states == {
        1: (True, []),
        2: (False, ["failed:1"]),
        3: (False, ["ok:1", "any:2"]),
        4: (False, ["any:3"]),
    }
    assert "held" in call("queue")
    assert "after ok:1, after any:2" in call("queue")
    made.kill()
    manager("--procs", 1)
    assert call("release", 1) == "job 1: waiting\n"
    ended = "job 4: finished\njob 3: cancelled: it was to start after ok:1, whose outcome is: failed\n"
    assert ended in call("wait", 4, 3, code=143)
    outcomes = {job["id"]: job["outcome"] for job in queue(True)["jobs"]}
    assert outcomes == {1: "failed", 2: "finished", 3: "cancelled", 4: "finished"}
    assert "after ok:1, whose outcome is: failed" in call("why", 3)
    for words, problem in (
        (("submit", "--after", "1", "--", "true"), "ok:JOB, any:JOB, failed:JOB are legal"),
        (("submit", "--after", "ok:9,any:8", "--", "true"), "there is no job 8"),
        (("hold", 1), "job 1 is ended; only a waiting job can be held or released"),
        (("release", 99), "there is no job 99"),
    ):
        assert problem in call(*words, code=None), words


def test_array_runs_each_number_and_is_one_job_to_commands(manager, cli, tmp_path):
    call, _, eventually = cli
    manager("--procs", 2)
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#SBATCH -a 1-5:2%1 -o %x-%A-%3a.out\nenv | grep _ARRAY_ | sort; exit $SLURM_ARRAY_TASK_ID\n"
    )
    assert call("submit", "job.sh", cwd=tmp_path) == "1\n"
    assert call("wait", 1, code=5) == "job 1: failed\njob 2: failed\njob 3: failed\n"
    variables = (tmp_path / "job.sh-1-003.out").read_text().replace("SLURM_ARRAY_", "").split()
    assert variables == [
        "JOB_ID=1",
        *(f"TASK_{one}" for one in ["COUNT=3", "ID=3", "MAX=5", "MIN=1", "STEP=2"]),
    ]
    call("submit", "--hold", "-a", "0,7", "sleep", "600", cwd=tmp_path)
    call("submit", "-d", "afterany:4,failed:1_3", "--", "true", cwd=tmp_path)
    assert "4 (4_0)" in call("queue")
    assert call("release", "4_7") == "job 5: waiting\n"
    eventually(lambda: (tmp_path / "apples-4_7.out").exists())
    assert call("cancel", 4).splitlines()[0] == "job 4: cancelled"
    call("wait", 4, 6, code=143)
    listed = list(csv.DictReader(call("accounting", "--csv").splitlines()))
    assert [(row["job"], row["state"], row["exit_code"]) for row in listed] == [
        *((f"{n} (1_{task})", "FAILED", str(task)) for n, task in ((1, 1), (2, 3), (3, 5))),
        ("4 (4_0)", "CANCELLED", "143"),
        ("5 (4_7)", "CANCELLED", "143"),
        ("6", "COMPLETED", "0"),
    ]
    assert all(row["start"] <= row["end"] or row["state"] == "CANCELLED" for row in listed)
    for words, jobs in (
        ((), 6),
        (("--state", "COMPLETED"), 1),
        (("--since", "1d"), 6),
        (("--since", "2999-01-01"), 0),
    ):
        assert len(json.loads(call("accounting", "--json", *words))["jobs"]) == jobs, words
    assert call("accounting").split()[:12] == [name.removesuffix("_s") for name in listed[0]]
    assert "exclude each other" in call("accounting", "--json", "--swf", code=2)
    assert "--since 'then' is not a span of time" in call("accounting", "--since", "then", code=2)
    assert call("cancel", 1) == ""
    assert "is over already" in call("cancel", "1_3", code=6)
    assert "there is no job 4_1" in call("cancel", "4_1", code=8)
    assert "there is no job 1_9" in call("submit", "-d", "ok:1_9", "--", "true", code=None, cwd=tmp_path)
    for numbers in ("", "1-", "2-1", "1-2000", "1%0", "9999999", "1:2"):
        assert "with 1 to 1000 numbers" in call("submit", "-a", numbers, "--", "true", code=2)


def test_waiting_for_a_job_gives_its_code(manager, cli, tmp_path):
    call, _, _ = cli
    manager("--procs", 1)
    assert "apples submit: job 1 failed" in call(
        "submit", "--wait", "--", "sh", "-c", "exit 7", code=7, cwd=tmp_path
    )
    call("submit", "--wait", "-t", "0.3s", "--", "sleep", "600", code=124, cwd=tmp_path)
    said = call("submit", "--wait", "--json", "--", "true", cwd=tmp_path)
    assert json.loads(said)["ended"]["outcome"] == "finished"
    said = call("submit", "--wait", "--", "nothing-like-it", code=127, cwd=tmp_path)
    assert "program 'nothing-like-it' is in none of the directories of PATH" in said
    program = tmp_path / "vanishing"
    program.write_text("#!/bin/sh\n")
    assert "may not be executed" in call("submit", "--", program, code=126)
    program.chmod(0o755)
    call("submit", "--hold", "--", program, cwd=tmp_path)
    program.unlink()
    call("release", 4)
    assert "vanishing: no such program" in call("why", 4) + call(
        "submit", "--wait", "--", "true", cwd=tmp_path
    ) + call("why", 4)


def test_what_will_not_do_is_said_at_once(manager, cli, tmp_path):
    call, _, _ = cli
    said = call("submit", "-t", "x", "--estimate", "0", "-D", "/nowhere", code=2)
    assert [line.split(";")[0] for line in said.splitlines()] == [
        "apples: no command",
        "apples: --time 'x' is not a span of time",
        "apples: --estimate 0: expected more than 0 seconds",
        "apples: --chdir /nowhere: no such directory",
    ]
    for command in (["submit", "--", "true"], ["queue"], ["why", 1], ["cancel", 1]):
        assert "start one with `apples manager --queue`" in call(*command, code=7)
    manager("--procs", 2)
    assert "procs 3: this machine has 2 processors; 1 to 2 are legal" in call(
        "submit", "-n", 3, "--", "true", code=2
    )
    assert "there is no job 9; `apples queue --all` lists" in call("why", 9, code=8)
    assert "there is no job 9" in call("cancel", 9, code=8)
    assert "--json and --watch exclude each other" in call("queue", "--json", "--watch", code=2)
    assert "files cannot be made in /nowhere" in call("submit", "-o", "/nowhere/x", "--", "true", code=2)


def test_options_of_the_manager(manager, cli, tmp_path, state_file):
    call, _, _ = cli
    assert "--procs is for a queue; add --queue" in call("manager", "--procs", 2, "--everybody", code=2)
    assert "--policy is for node managers; add --key FILE" in call(
        "manager", "--queue", "--policy", "fcs", code=2
    )
    wrong = tmp_path / "queue.yaml"
    wrong.write_text("queue: {priority: wait +}\n")
    assert "queue.yaml:1: queue.priority" in call("manager", "--queue", "--queue-config", wrong, code=2)
    wrong.write_text("estimates: {source: actual}\n")
    assert "actual run times are known in a replay only" in call(
        "manager", "--queue", "--queue-config", wrong, code=2
    )
    other = tmp_path / "notes.txt"
    other.write_text("no database, only notes " * 9)
    assert "notes.txt: not an SQLite database" in call("manager", "--queue", other, code=4)
    first = manager("--procs", 1)
    said = call("manager", "--queue", code=5)
    assert f"{state_file()}: another manager serves this queue already" in said
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(timeout=30) == 130


def test_database_of_something_else(cli, tmp_path):
    call, _, _ = cli
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE fish (name)")
    other.close()
    assert "an SQLite database of another program" in call("manager", "--queue", path, code=4)


def test_running_job_outlives_the_manager_and_is_found_again(manager, cli, tmp_path):
    call, queue, eventually = cli
    one = manager("--procs", 2)
    call("submit", "-n", 2, "--", "sh", "-c", "while ! [ -e go ]; do sleep 0.02; done; exit 5", cwd=tmp_path)
    call("submit", "--", "true", cwd=tmp_path)
    eventually(lambda: queue()["jobs"][0]["state"] == "running")
    waiter = subprocess.Popen(
        [*call.__globals__["APPLES"], "submit", "--wait", "--", "true"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiter.stderr.readline() == "job 3\n"
    one.kill()
    one.start()
    one.ready()
    assert "3 jobs found, 1 running" in one.log.read_text()
    one.kill()
    (tmp_path / "go").touch()
    one.start()
    assert waiter.wait(timeout=60) == 0
    waiter.stderr.close()
    eventually(lambda: not queue()["jobs"])
    assert [job["outcome"] for job in queue(True)["jobs"]] == ["failed", "finished", "finished"]
    assert queue(True)["jobs"][0]["exit_code"] == 5


def test_job_whose_supervisor_is_killed_is_lost_and_not_run_again(manager, cli, tmp_path, state_file):
    call, queue, eventually = cli
    manager("--procs", 1)
    # Its child is in a session of its own and would live on.
    script = "echo ran >> runs; setsid sleep 600 & echo $! > child; wait"
    call("submit", "--", "sh", "-c", script, cwd=tmp_path)
    eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    with sqlite3.connect(state_file()) as database:
        ((supervisor,),) = database.execute("SELECT supervisor FROM jobs").fetchall()
    database.close()
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not queue()["jobs"])
    (job,) = queue(True)["jobs"]
    assert (job["outcome"], job["exit_code"]) == ("lost", 125)
    assert "its supervisor was killed, how it ended is not known" in job["detail"]
    assert (tmp_path / "runs").read_text() == "ran\n"
    child = int((tmp_path / "child").read_text())
    eventually(lambda: not os.path.exists(f"/proc/{child}/exe"))


def test_cancellation_is_carried_out_although_the_manager_died_in_between(manager, cli, tmp_path, state_file):
    call, queue, eventually = cli
    one = manager("--procs", 1)
    call("submit", "--", "sleep", "600", cwd=tmp_path)
    eventually(lambda: queue()["jobs"][0]["state"] == "running")
    one.kill()
    with sqlite3.connect(state_file()) as database:
        database.execute("UPDATE jobs SET cancel = 'me'")
    database.close()
    one.start()
    one.ready()
    eventually(lambda: not queue()["jobs"])
    assert queue(True)["jobs"][0]["outcome"] == "cancelled"


def test_submission_that_is_sent_twice_is_one_job(manager, asked, request_document):
    one = manager("--procs", 1)
    document = request_document(token="once", request_s=5)
    with QueueClient() as client:
        answers = client.ask_all("submit", [document, document])
    assert answers == [1, 1]
    one.kill()
    one.start()
    one.ready()
    with QueueClient() as client:
        assert client.ask("submit", document) == 1
        assert len(client.ask("queue", {"all": True}).jobs) == 1


@pytest.mark.nightly
def test_sixty_jobs_and_two_kills(manager, cli, tmp_path, request_document):
    """Every job runs exactly once, and the order of starts is what the simulator says of the same input."""
    call, queue, eventually = cli
    one = manager("--procs", 5)
    jobs = 60

    def document(number):
        script = f"echo {number} >> {tmp_path}/runs; sleep 0.0{number % 7}"
        procs, request_s = 1 + number * 7 % 5, 5.0 + number * 11 % 13
        more = {"token": f"t{number}", "name": f"j{number}", "procs": procs, "request_s": request_s}
        return request_document("sh", "-c", script, **more)

    def submit_all():
        for number in range(jobs):
            while True:
                try:
                    with QueueClient() as client:
                        client.ask("submit", document(number))
                    break
                except (NoManager, SharingError):
                    threading.Event().wait(0.02)

    user = threading.Thread(target=submit_all)
    user.start()
    runs = tmp_path / "runs"
    for share in (10, 25):
        eventually(lambda share=share: runs.exists() and len(runs.read_text().split()) >= share)
        one.kill()
        one.start()
    user.join()
    one.ready()
    eventually(lambda: len(queue(True)["jobs"]) == jobs and not queue()["jobs"])
    found = queue(True)["jobs"]
    assert Counter(runs.read_text().split()) == {str(number): 1 for number in range(jobs)}
    assert {job["outcome"] for job in found} == {"finished"}
    log, starts = tmp_path / "log.swf", tmp_path / "starts"
    call("queue", "--log", log)
    assert call("accounting", "--swf") == log.read_text()
    call("simulate-queue", log, "--starts", starts)
    told = {
        int(n): float(start) for n, _, start in (line.split() for line in starts.read_text().splitlines())
    }
    assert {job["id"]: job["instants"]["start_s"] for job in found} == told
    assert any(job["backfilled"] for job in found)
    scored = json.loads(call("estimate", "--score", "--json"))["estimators"]
    assert scored["request"]["jobs"] == jobs


def test_queue_of_a_manager_of_nodes_gives_out_their_processors(manager, cli, tmp_path):
    call, queue, eventually = cli
    key, place, state = tmp_path / "key", tmp_path / "place", tmp_path / "nodes"
    call("manager", "--new-key", key)
    one = manager("--key", key, "--listen", "127.0.0.1:0", "--place-file", place, "--policy", "gang")
    assert queue()["processors"] == len(os.sched_getaffinity(0))
    options = ["--manager", place.read_text().strip(), "--key", key, "--policy", "gang"]
    state.mkdir(mode=0o700)
    nodes = [
        subprocess.Popen(
            [
                *call.__globals__["APPLES"],
                "node",
                "--name",
                name,
                "--socket",
                state / name,
                "--cpus",
                "0",
                *options,
            ],
            stderr=subprocess.DEVNULL,
        )
        for name in ("a", "b", "c")
    ]
    try:
        eventually(lambda: queue()["processors"] == 3)
        nodes[0].terminate()
        eventually(lambda: queue()["processors"] == 2)
    finally:
        for node in nodes:
            node.terminate()
            node.wait(timeout=30)
    one.process.kill()
    one.process.wait()

    def gone():
        try:
            queue()
        except SharingError:
            return True

    eventually(gone)
