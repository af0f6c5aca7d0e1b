"""Launches through a real Slurm: ranks where the plan says, every end told for what it was, and nothing left of any."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
LAUNCH = Path(__file__).with_name("launch_in_cluster.py")
SLEEP = f"{shutil.which('sleep')} 600"
#: What a host of the cluster runs by itself.
DAEMONS = (
    "unshare --net",
    "sshd_config",
    "/init",
    "sleep 1",
    "munged",
    "slurmctld",
    "slurmd ",
    "slurmscriptd",
)


def wait_for(what, within_s=60.0, complaint=lambda: "waited in vain"):
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.05)
    return found


def left(cluster):
    """Jobs, and what runs on hosts besides the hosts themselves."""
    testbed = cluster.testbed
    found = [(h.name, c) for h in testbed.spec.hosts for c in testbed.processes(h.name).values()]
    return cluster.jobs() + [
        (host, command) for host, command in found if command and not any(word in command for word in DAEMONS)
    ]


@pytest.fixture(autouse=True)
def nothing_is_left(cluster):
    yield
    wait_for(lambda: not left(cluster), complaint=lambda: left(cluster))
    cluster.wait_until_idle()


@pytest.fixture
def launch(cluster):
    """Starts a launch on the login node; what still runs at the end is killed."""
    started = []

    def make(chain, *command, around=(), **options):
        words = [*around, sys.executable, str(LAUNCH), json.dumps(options), chain, *command]
        started.append(
            subprocess.Popen(
                cluster.testbed.command("head", words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield make
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def outcome(process):
    out, err = process.communicate(timeout=120)
    assert out.strip(), err
    return json.loads(out.splitlines()[-1]), out.splitlines()[:-1], err


def running(cluster, *hosts):
    """Whether the program runs on all these hosts."""
    return all(SLEEP in cluster.testbed.processes(host).values() for host in hosts)


def of_launch(cluster, program, word=""):
    """The process on the login node, as the machine sees it, that runs this program, with this word among others."""
    found = cluster.testbed.processes("head").items()
    (pid,) = [pid for pid, command in found if command.startswith(program) and word in command]
    return pid


def test_ranks_run_on_their_hosts_of_the_plan(cluster, launch):
    program = "hostname > RUN_DIR/rank-$PMI_RANK.txt; echo $PMI_SIZE $SLURM_STEP_NUM_TASKS"
    chain = ("n1", "n3", "n1", "n2")
    ended, said, _ = outcome(launch(",".join(chain), "sh", "-c", program, label=True))
    assert (ended["ended"], ended["message"]) == ("finished", "")
    assert [(s["host"], s["exit_code"]) for s in ended["statuses"]] == [(host, 0) for host in chain]
    assert ended["left"] == {f"rank-{rank}.txt": f"{host}\n" for rank, host in enumerate(chain)}
    assert sorted(said) == [f"[{rank}] 4 4" for rank in range(4)]


def test_ranks_that_fail_are_named_with_their_codes(cluster, launch):
    ended, _, _ = outcome(launch("n1,n2", "sh", "-c", "sleep $((5 * PMI_RANK)); exit $((PMI_RANK + 3))"))
    assert (ended["ended"], ended["exit_code"]) == ("failed", 3)
    assert ended["message"] == "rank 0 on n1 ended with exit code 3"
    ended, _, _ = outcome(launch("n1,n2", "sh", "-c", "[ $PMI_RANK = 0 ] || kill -9 $$; exec sleep 600"))
    assert (ended["exit_code"], ended["message"]) == (137, "rank 1 on n2 was killed by signal 9 (KILL)")


@pytest.mark.parametrize("family", ["own", "openmpi"])
def test_program_of_users_mpi_runs_as_one_step(cluster, launch, mpi_programs, family):
    ended, said, _ = outcome(launch("n1,n2,n1", mpi_programs(family)))
    assert ended["message"] == "", ended["message"]
    assert ended["ended"] == "finished"
    assert sorted(line.strip() for line in said) == [f"{rank} of 3" for rank in range(3)]


def test_mpi_works_and_its_abort_is_heard(cluster, launch):
    program = (
        "import os; from mpi4py import MPI; c = MPI.COMM_WORLD; s = c.allreduce(c.rank); "
        # one write: print may make two of a line, and ranks of a host share a pipe
        # and all have written before one ends the others
        "os.write(1, f'{s}\\n'.encode()); c.Barrier(); c.rank == 2 and c.Abort(5); c.Barrier()"
    )
    ended, said, _ = outcome(launch("n1,n2,n1", sys.executable, "-c", program))
    assert said == ["3"] * 3
    assert (ended["exit_code"], ended["message"]) == (
        5,
        "rank 2 on n1 aborted the run (MPI_Abort) with code 5",
    )


@pytest.mark.parametrize(
    ("signals", "code", "name"),
    [(("INT",), 130, "INT"), (("INT", "INT"), 130, "INT"), (("TERM",), 143, "TERM")],
)
def test_interrupted_run(cluster, launch, signals, code, name):
    # what ignores the first interrupt is ended by the second
    command = ["sh", "-c", f"trap '' INT; {SLEEP} & wait"] if len(signals) > 1 else SLEEP.split()
    process = launch("n1,n2", *command)
    wait_for(lambda: running(cluster, "n1", "n2"))
    launcher = of_launch(cluster, sys.executable, LAUNCH.name)
    for number, each in enumerate(signals):
        os.kill(launcher, getattr(signal, f"SIG{each}"))
        if number + 1 < len(signals):
            wait_for(lambda: "interrupt once more" in process.stderr.readline())
    ended, _, _ = outcome(process)
    assert (ended["ended"], ended["exit_code"]) == ("interrupted", code)
    assert ended["message"] == f"the run was interrupted by signal {name}"


@pytest.mark.parametrize(
    "victim",
    [
        (sys.executable, LAUNCH.name),
        (shutil.which("salloc") or "",),
        (sys.executable, "py hold"),
    ],
    ids=["launcher", "salloc", "holder"],
)
def test_killed_process_leaves_nothing(cluster, launch, victim):
    process = launch("n1,n2", *SLEEP.split())
    wait_for(lambda: running(cluster, "n1", "n2"))
    os.kill(of_launch(cluster, *victim), signal.SIGKILL)
    process.communicate(timeout=60)


def test_run_does_not_need_the_guard_of_its_allocation(cluster, launch):
    process = launch("n1,n2", *SLEEP.split())
    wait_for(lambda: running(cluster, "n1", "n2"))
    os.kill(of_launch(cluster, sys.executable, "py guard"), signal.SIGKILL)
    os.kill(of_launch(cluster, sys.executable, LAUNCH.name), signal.SIGTERM)
    assert outcome(process)[0]["exit_code"] == 143


def test_cancelled_job_is_told(cluster, launch):
    process = launch("n1,n2", *SLEEP.split())
    wait_for(lambda: running(cluster, "n1", "n2"))
    job = cluster.jobs()[0].split()[0]
    cluster.testbed.run("head", "scancel", job)
    ended, _, _ = outcome(process)
    assert (ended["ended"], ended["exit_code"]) == ("interrupted", 143)
    assert ended["message"] == f"job {job} was cancelled (scancel)"


def test_preempted_job_is_told(cluster, launch):
    process = launch("n1,n2", *SLEEP.split())
    wait_for(lambda: running(cluster, "n1", "n2"))
    taken = cluster.testbed.run("head", "srun", "--partition=urgent", "--nodes=4", "--exclusive", "true")
    assert taken.returncode == 0, taken.stderr
    ended, _, _ = outcome(process)
    assert (ended["ended"], ended["exit_code"]) == ("failed", 125)
    assert "was preempted: Slurm gave its nodes to a job of higher priority" in ended["message"]


def test_time_limit(cluster, launch):
    ended, _, _ = outcome(launch("n1", *SLEEP.split(), time_limit_s=0.5))
    assert (ended["ended"], ended["exit_code"]) == ("time limit", 124)


def test_run_in_an_allocation_ends_before_the_allocation_does(cluster, launch):
    around = ("salloc", "--quiet", "--nodes=2", "--nodelist=n1,n2", "--ntasks=3")
    ended, _, _ = outcome(launch("n2,n1,n2", *SLEEP.split(), around=around, left_s=15.5))
    assert (ended["ended"], ended["exit_code"]) == ("time limit", 124)
    assert ended["message"].endswith("what the allocation leaves; give more with --time-limit")


def test_node_is_lost(cluster, launch):
    process = launch("n1,n2,n3", *SLEEP.split(), lost_s=4.0)
    try:
        wait_for(lambda: running(cluster, "n1", "n2", "n3"))
        cluster.testbed.crash("n3")
        ended, _, _ = outcome(process)
    finally:
        # an operator sees to it; Slurm itself would ask the node for its jobs only minutes later
        cluster.control("update", "nodename=n3", "state=down", "reason=crashed")
        cluster.testbed.start("n3")
        cluster.start("n3")
    assert (ended["ended"], ended["exit_code"], list(ended["lost"])) == ("failed", 125, ["n3"])
    assert "n3 was not heard of for " in ended["message"]


@pytest.fixture
def taken(cluster):
    """Somebody else's job has the first node; a function that ends it."""
    run = cluster.testbed.run
    job = run(
        "head", "sbatch", "--parsable", "--nodelist=n1", "--exclusive", "--output=/dev/null", "--wrap", SLEEP
    )
    number = job.stdout.strip()
    wait_for(lambda: f"{number} RUNNING n1" in cluster.jobs(), complaint=lambda: job.stderr)
    yield lambda: run("head", "scancel", number)
    run("head", "scancel", number)


def test_nodes_that_were_taken_are_waited_for(cluster, launch, taken):
    process = launch("n1", "true")
    assert "waits for nodes that others hold" in process.stderr.readline()
    taken()
    assert outcome(process)[0]["ended"] == "finished"


def test_who_does_not_want_to_wait_is_told_why(cluster, launch, taken):
    ended, _, _ = outcome(launch("n1", "true", wishes={"immediate_s": 1.0}))
    assert ended["exit_code"] == 125
    assert "the nodes of the plan are not free just now" in ended["error"]


def test_node_drained_after_the_plan_is_named(cluster, launch):
    cluster.control("update", "nodename=n2", "state=drain", "reason=memory errors")
    try:
        ended, _, _ = outcome(launch("n1,n2", "true"))
    finally:
        cluster.control("update", "nodename=n2", "state=resume")
    assert (ended["ended"], ended["exit_code"]) == ("failed", 125)
    assert ended["lost"] == {"n2": "is drained: memory errors"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"wishes": {"partition": "guarded", "account": "art"}},
            "the account may not use this partition; give another with --account",
        ),
        ({"wishes": {"partition": "closed"}}, "the partition takes no jobs now"),
        ({"wishes": {"reservation": "friday"}}, "there is no such reservation"),
        (
            {"predicted_s": 300.0, "most_s": 120.0},
            "the run is predicted to take 5 min and 2 min is the time limit",
        ),
        (
            {"time_limit_s": 300.0, "most_s": 120.0},
            "--time-limit of 5 min is more than the partition's 2 min",
        ),
    ],
)
def test_what_slurm_refuses_is_told_with_what_to_do(cluster, launch, options, error):
    ended, _, _ = outcome(launch("n1", "true", **options))
    assert error in ended["error"]
    assert ended["exit_code"] == 125


MESH = ("-s", "nx=16", "-s", "ny=16", "-s", "iterations=20")
HEAT = ("--app", "heat", *MESH, "--scheduler", "default", "--json")


def told_by(cluster, launcher):
    """Chain of (host, rows), what the program printed, and the document of one run of the command."""
    command = (str(BIN / "apples-run"), "12", *HEAT, "--launcher", launcher, "-H", "n3:1,n1:1,n2:1")
    result = cluster.testbed.run("head", *command)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    printed = [line for line in result.stderr.splitlines() if line.startswith("heat ")]
    return [(host["host"], host["rows"]) for host in document["hosts"]], printed, document


@pytest.mark.nightly
def test_same_job_through_ssh_and_through_slurm(cluster):
    chain, printed, _ = told_by(cluster, "ssh")
    assert (chain, len(printed)) == ([("n3", 4), ("n1", 4), ("n2", 4)], 1)
    through_slurm = told_by(cluster, "slurm")
    assert through_slurm[:2] == (chain, printed)
    assert through_slurm[2]["left_out"] == []
    assert [host["exit_code"] for host in through_slurm[2]["hosts"]] == [0, 0, 0]


def test_benchmarks_run_in_the_partition_of_the_ranks(cluster):
    words = ("12", *HEAT[:6], "--launcher", "slurm", "-H", "n1:1,n2:1", "--json")
    result = cluster.testbed.run("head", str(BIN / "apples"), "calibrate", *words)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["key"].startswith("slurm heat ")
    assert all(seconds > 0 for table in document["seconds_per_row"].values() for seconds in table.values())


@pytest.mark.nightly
def test_jobs_of_a_shared_partition_share_by_a_policy(cluster, library):
    """The daemons end with the job that has started them; the other one goes on under its own."""
    command = f"{BIN}/apples-run 32 --app heat -s nx=64 -s ny=64 -s iterations=1000000 --json --monitor --policy gang"
    words = f"{command} --launcher slurm --partition shared -H n1:1,n2:1 -n 2".split()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs, launchers, documents = [], [], []

    def wait_for_line(text, run):
        lines = []
        while text not in "".join(lines):
            lines.append(run.stderr.readline())
            assert lines[-1], lines

    for _ in range(2):
        runs.append(subprocess.Popen(cluster.testbed.command("head", words), **pipes))
        wait_for_line("policy gang on n1, n2", runs[-1])
        found = cluster.testbed.processes("head").items()
        # beside the interpreter, nsenter has the same words
        python = {p: c for p, c in found if Path(c.split()[0]).name.startswith("python")}
        launchers += [p for p, c in python.items() if command in c and p not in launchers]
    wait_for_line("iteration", runs[1])
    for number, run in enumerate(runs):
        if number == 1:
            wait_for_line("joining the hosts again", run)
            wait_for_line("starting a node manager for n2", run)
            time.sleep(2.0)
        os.kill(launchers[number], signal.SIGINT)
        out, err = run.communicate(timeout=60)
        assert run.returncode == 130, err
        documents.append(json.loads(out))
    for document in documents:
        assert {rank["node"] for rank in document["sharing"]["ranks"]} == {"n1", "n2"}
        assert all(rank["t_cpu_s"] > 0 for rank in document["sharing"]["ranks"])
        assert len(document["monitor"]["ranks"]) == 2
    assert [document["sharing"]["slots_before"] for document in documents] == [0, 1]
    assert any(rank["stopped_s"] > 0 for one in documents for rank in one["sharing"]["ranks"])


def test_start_of_a_job_is_predicted_and_nothing_submitted(cluster):
    """The limit of the running job is all that is known about its end; a dependent job is in nobody's way."""
    testbed = cluster.testbed

    def on_head(command):
        done = testbed.run("head", "sh", "-ec", f"cd /tmp; export APPLES_STATE=/run/when; {command}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = on_head("sbatch --parsable -n 6 -t 10 --wrap 'sleep 600'").strip()
    on_head(f"sbatch -n 8 -t 5 --dependency=afterany:{first} --wrap true")
    try:
        wait_for(lambda: "RUNNING" in on_head("squeue --noheader --format=%T"))
        answer = json.loads(on_head(f"{BIN}/apples when -n 2,8 -t 20 -p all,shared --json --record"))
        jobs = {(job["partition"], job["cpus"]): job["wait_s"] for job in answer["jobs"]}
        assert jobs["all", 2] == 0
        assert 500 < jobs["all", 8] <= 600
        assert answer["partitions"]["shared"]["cpus"] == 16
        assert len(on_head("squeue --noheader").splitlines()) == 2
    finally:
        on_head("scancel --user=root")
