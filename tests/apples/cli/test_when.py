"""`apples when`: tables of Slurm's commands in, starts out. Where ranges count, a week of a cluster is played first."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from apples.platforms import startstore
from apples.platforms.jobstarts import JudgedStart
from apples.queueing.startranges import ForeseenWait

SINFO = "NODELIST|PARTITION|STATE|CPUS|TIMELIMIT|OVERSUBSCRIBE|AVAIL|PRIO_TIER"
SQUEUE = (
    "JOBID|PARTITION|USER|ACCOUNT|STATE|CPUS|NODES|TIME_LIMIT|TIME|SUBMIT_TIME|START_TIME|PRIORITY|REASON|"
    "NODELIST"
)
SACCT = "JobIDRaw|User|Account|Submit|Start|End|Timelimit|AllocCPUS|State|Partition"
NOON = datetime(2026, 3, 2, 12)

#: Four nodes of four CPUs, one drained. Partitions: for all jobs, for urgent ones, for jobs that have nodes alone.
NODES = [
    *(f"n{i}|batch*|{'drained' if i == 4 else 'mixed'}|4|1-00:00:00|NO|up|1" for i in (1, 2, 3, 4)),
    *(f"n{i}|urgent|mixed|4|infinite|NO|up|10" for i in (1, 2, 3)),
    *(f"n{i}|whole|mixed|4|2:00:00|EXCLUSIVE|up|1" for i in (1, 2)),
    "n4|closed|drained|4|infinite|NO|up|1",
]


def at(minutes):
    return (NOON + timedelta(minutes=minutes)).isoformat(timespec="seconds")


def runs(job, cpus, since, limit, nodes, user="ann", partition="batch"):
    clock = f"{max(-since, 0) // 60}:{max(-since, 0) % 60:02}:00"
    return f"{job}|{partition}|{user}|sun|RUNNING|{cpus}|1|{limit}|{clock}|{at(since - 5)}|{at(since)}|9|None|{nodes}"


def waits(job, cpus, limit, priority=5, user="bob", partition="batch", reason="Resources"):
    return f"{job}|{partition}|{user}|sun|PENDING|{cpus}|1|{limit}|0:00|{at(-3)}|N/A|{priority}|{reason}|"


@pytest.fixture
def ask(run, tmp_path):
    """Writes the tables and runs the command on them."""

    def call(jobs, *words, nodes=NODES, history=(), reservations="", **more):
        for name, lines in (
            ("sinfo.txt", ["module loaded", SINFO, *nodes]),
            ("squeue.txt", [SQUEUE, *jobs]),
            ("sacct.txt", [SACCT, *history]),
            ("reservations.txt", [reservations]),
        ):
            (tmp_path / name).write_text("\n".join([*lines, ""]))
        return run("apples", "when", "--from", tmp_path, *words, **more)

    return call


def starts(done):
    """Predicted starts in minutes from noon, by partition and CPUs."""
    assert done.code == 0, done.err
    return {
        (job["partition"], job["cpus"]): (datetime.fromisoformat(job["start"]["median"]) - NOON).seconds / 60
        for job in json.loads(done.out)["jobs"]
    }


BUSY = [runs(1, 4, -20, "1:00:00", "n1"), runs(2, 4, -10, "30:00", "n2"), runs(3, 2, -30, "2:00:00", "n3")]


@pytest.mark.parametrize(
    ("jobs", "words", "expected"),
    [
        # 2 of 12 CPUs are free now, 6 in 20 minutes, 10 in 40, all in 90. Nobody's run time is known: limits hold.
        (BUSY, ("-n", "2,6,10,12"), {2: 0, 6: 20, 10: 40, 12: 90}),
        # A job of 6 CPUs ahead takes those of 20 minutes; held ones are in nobody's way.
        ([*BUSY, waits(4, 6, "1:00:00")], ("-n", "6"), {6: 80}),
        ([*BUSY, waits(4, 6, "1:00:00", reason="JobHeldUser")], ("-n", "6"), {6: 20}),
        ([*BUSY, waits(4, 6, "1:00:00", reason="AssocGrpCpuLimit")], ("-n", "6"), {6: 20}),
        # Unless the job has a higher priority, stated or that of the owner's last job.
        ([*BUSY, waits(4, 6, "1:00:00")], ("-n", "6", "--priority", "7"), {6: 20}),
        ([*BUSY, waits(4, 6, "1:00:00")], ("-n", "6", "--user", "ann"), {6: 20}),
        # A higher tier goes first.
        (
            [*BUSY, waits(4, 6, "1:00:00", partition="urgent", priority=1)],
            ("-n", "6", "--priority", "7"),
            {6: 80},
        ),
        ([*BUSY, waits(4, 6, "1:00:00")], ("-n", "6", "-p", "urgent"), {6: 20}),
        # A limit that no calendar has.
        ([*BUSY, waits(4, 6, "9" * 400)], ("-n", "2", "-p", "urgent", "-t", "99999999d"), {2: 0}),
        # Tasks of two CPUs; whole nodes.
        (BUSY, ("-n", "5", "-c", "2"), {10: 40}),
        (BUSY, ("-N", "1,3"), {4: 20, 12: 90}),
        (BUSY, ("-n", "1,5", "-p", "whole"), {4: 20, 8: 40}),
    ],
)
def test_start_follows_priorities_and_limits(ask, jobs, words, expected):
    found = starts(ask(jobs, "-t", "30", *words, "--json"))
    assert {cpus: minutes for (_, cpus), minutes in found.items()} == expected


def test_job_does_not_cross_a_coming_reservation(ask):
    window = f"ReservationName=maint StartTime={at(60)} EndTime={at(120)} Nodes=n[1-4] Flags=MAINT"
    begun = window.replace(at(60), at(-60))
    assert starts(ask(BUSY, "-n", "6", "-t", "40", "--json", reservations=window)) == {("batch", 6): 20}
    assert starts(ask(BUSY, "-n", "6", "-t", "41", "--json", reservations=window)) == {("batch", 6): 120}
    idle = [BUSY[2]]
    assert starts(ask(idle, "-n", "6", "-t", "5", "--json", reservations=begun)) == {("batch", 6): 120}


def test_table_and_metrics_as_people_see_them(ask, golden, tmp_path):
    jobs = [
        *BUSY,
        waits(4, 6, "1:00:00"),
        waits("5_1", 1, "10:00", reason="Dependency"),
        "6|batch|half a line",
    ]
    metrics = tmp_path / "slurm.prom"
    done = ask(jobs, "-n", "2,6,99", "-t", "4h", "-p", "all", "--prometheus", metrics)
    golden(
        "apples/cli/when.txt",
        "\n".join([done.out, done.err, metrics.read_text()]).replace(str(tmp_path), "DIR"),
    )


def played(run, directory, days, seed=1):
    """Replay jobs on the 12 CPUs. Return sacct's lines of those that ended and squeue's lines of the others."""
    draw = random.Random(seed)
    submit, jobs = 0.0, []
    while submit < days * 1440:
        submit += draw.expovariate(1 / 24.0)
        limit = draw.choice((30, 120, 240))
        jobs.append((submit, draw.choice((1, 2, 4, 8)), limit, limit * draw.choice((0.1, 0.3, 0.5, 1.0))))
    swf = [
        f"{number} {60 * submit:.0f} -1 {60 * length:.0f} {cpus} -1 -1 {cpus} {60 * limit} -1 1 1 1 -1 1 -1 -1 -1"
        for number, (submit, cpus, limit, length) in enumerate(jobs, 1)
    ]
    (directory / "week.swf").write_text("\n".join(["; MaxProcs: 12", *swf, ""]))
    rules = ("--priority", "fcfs", "--estimates", "request", "--predict", directory / "starts.txt")
    assert run("apples", "simulate-queue", directory / "week.swf", *rules).code == 0
    ended, present = [], []
    for line in (directory / "starts.txt").read_text().splitlines():
        if not line[0].isdecimal():
            continue
        number, _, begun = (float(word) for word in line.split()[:3])
        submit, cpus, limit, length = jobs[int(number) - 1]
        since, start, end = (minute - days * 1440 for minute in (submit, begun / 60, begun / 60 + length))
        if end <= 0:
            moments = "|".join(map(at, (since, start, end)))
            ended.append(f"{number:.0f}|ann|sun|{moments}|{limit}|{cpus}|COMPLETED|batch")
        elif start <= 0:
            present.append(runs(f"{number:.0f}", cpus, int(start), f"{limit}:00", "n1"))
    return ended, present


def test_ranges_are_widened_until_they_hold(ask, run, tmp_path):
    history, present = played(run, tmp_path, 14)
    answer = json.loads(ask(present, "-n", "4", "-t", "1:00:00", "--json", history=history).out)
    batch = answer["partitions"]["batch"]
    assert batch["known"] >= 150
    assert 0.7 <= batch["held"] <= 0.9
    (job,) = answer["jobs"]
    assert job["start"]["low"] <= job["start"]["median"] <= job["start"]["high"] < job["end"]["high"]


def test_kept_predictions_are_compared_with_starts(ask, tmp_path):
    waiting, later = waits(4, 6, "1:00:00"), runs(4, 6, 20, "1:00:00", "n[1-2]")
    for minute, jobs in ((19, [*BUSY, waiting]), (21, [later])):
        done = ask(jobs, "--record", "--at", at(minute))
        assert (done.code, done.out) == (0, "")
    store = next(tmp_path.parent.rglob("starts.json"))
    kept = {one["job"]: one for one in json.loads(store.read_text())["clusters"][tmp_path.name]["batch"]}
    noon = NOON.replace(tzinfo=UTC).timestamp()
    assert (kept["4"]["at_s"], kept["4"]["start_s"]) == (noon + 60 * 19, noon + 60 * 20)
    store.write_text("{")
    done = ask([later], "-n", "1", "-t", "5")
    assert done.code == 0
    assert "starts.json" in done.err


def test_startstore_keep_several_writers_loses_none():
    one = JudgedStart(job="1", at_s=0.0, foreseen=ForeseenWait(0.0, 1.0, 2.0, 0.0, 2.0))
    names = [str(number) for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: startstore.keep(name, {"batch": [one]}), names))
    assert sorted(startstore.read(pytest.fail)) == sorted(names)


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ((), ["give its width and time limit, such as -n 64 -t 4h"]),
        (("-n", "9" * 5000, "-t", "5"), ["expected whole numbers"]),
        (("-n", "0,x", "-t", "soon"), ["-n 0,x: expected whole numbers", "--time 'soon' is not a span"]),
        (("-n", "4", "-N", "1", "-t", "5"), ["-n and -N exclude each other"]),
        (("-n", "4", "-t", "5", "-p", "nope"), ["no nope; legal are batch, urgent, whole, closed, all"]),
        (("-n", "99", "-t", "5"), ["99 CPUs are asked and 12 are usable"]),
        (("-n", "4", "-t", "2-0"), ["its limit is 1440 min"]),
        (("-n", "4", "-t", "5", "-p", "closed"), ["no node is usable; sinfo -R"]),
        (("-n", "4", "-t", "5", "--at", "noon"), ["--at noon: expected a local time"]),
    ],
)
def test_wrong_question_is_answered_with_the_remedy(ask, words, messages):
    done = ask(BUSY, *words)
    assert (done.code, done.out) == (2, "")
    for message in messages:
        assert message in done.err


def test_missing_tables_are_named_with_their_commands(run, tmp_path):
    done = run("apples", "when", "-n", "4", "-t", "5", "--from", tmp_path)
    assert done.code == 2
    assert "make it with sinfo --all --Node '--format=%N|%P|%T|%c|%l|%h|%a|%p' > sinfo.txt" in done.err
    assert "squeue.txt: is missing" in done.err
    (tmp_path / "sinfo.txt").write_text("n1 n2\n")
    (tmp_path / "squeue.txt").write_text(SQUEUE)
    assert (
        "sinfo: no header with the columns NODELIST|"
        in run("apples", "when", "-n", "4", "-t", "5", "--from", tmp_path).err
    )
