"""One instant, one transaction: what the queue decides, what it knows after a restart, what a replay says."""

import re
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from apples.errors import ConfigError, HistoryError
from apples.livequeue import status as requests
from apples.livequeue.queuehosts import Machine, listed
from apples.livequeue.queuelog import swf_lines
from apples.livequeue.queuemessages import PageRequest
from apples.livequeue.status import StatusRequests, why
from apples.queueing.jobs import OFF
from apples.queueing.startranges import ForeseenWait
from apples.simulation.batch.batchmachine import Replay, simulate
from apples.simulation.batch.swf import parse_swf
from tests.transcripts import replay


class QueueSession:
    """Commands of transcripts: instants of one queue, answered with the jobs that they change and the free processors.

    Jobs are words as `4p,20s,d0.4+0.3,m33`: processors, requested seconds, duty cycles, seconds by a model.
    """

    def __init__(self, bench, asked, directory):
        self.bench, self.asked, self.directories = bench, asked, (directory / str(n) for n in count())

    def new(self, processors="8", cpus="", **chosen):
        """Processors of one host, or of several as `here:2,there:2`, with CPUs of the first."""
        if ":" in processors:
            slots = {
                name: int(number) for name, _, number in (w.partition(":") for w in processors.split(","))
            }
            machine = Machine(slots=slots, here="here", cpus=tuple(map(int, cpus.split("."))))
        chosen = {name: OPTIONS[text] if text in OPTIONS else literal(text) for name, text in chosen.items()}
        directory = next(self.directories)
        directory.mkdir()
        self.shown = {}
        self.one = self.bench(
            directory, processors=machine if ":" in processors else int(processors), **chosen
        )

    def at(self, seconds, *words, **numbers):
        """An instant: `ended`, `failed`, `cancelled`, `hold` and `release` are numbers of jobs."""
        jobs = [self.asked(**dict(map(field, word.split(",")))) for word in words]
        lists = {name: [int(number) for number in text.split(",")] for name, text in numbers.items()}
        held = dict.fromkeys(lists.pop("hold", ()), True) | dict.fromkeys(lists.pop("release", ()), False)
        self.one.at(float(seconds), *jobs, held=held, **lists)
        return self.changes()

    def machine(self, processors):
        self.one.live.set_machine(Machine(slots={"here": int(processors)}))
        return self.changes()

    def restart(self, processors=None):
        self.one.processors = self.one.processors if processors is None else int(processors)
        self.one.restart()
        return [*["another policy"] * self.one.live.policy_changed, *self.changes()]

    def why(self, *numbers):
        """Reasons, with `TIME` for times of day."""
        for number in numbers:
            text = why(self.one.live, int(number)) or "no such job"
            yield re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)?", "TIME", text)

    def predict(self):
        head = self.one.live.queue.reservation(self.one.live.clock.now())
        yield "first in line: " + ("no job" if head is None else f"{head.job.id} at {head.at_s:g}")
        for number in sorted(self.one.live.starts.order()):
            start, planned = self.one.live.starts.start(number), self.one.live.queue.planned_start_s(number)
            yield f"{number} at {start.median_s:g}, from {start.low_s:g} to {start.high_s:g}" + (
                "" if planned is None else f", reserved at {planned:g}"
            )

    def changes(self):
        live = self.one.live
        for job in self.one.store.all_jobs():
            words = [job.state] + [job.outcome or ""] * (job.state == "ended")
            words += [f"beside {job.beside}"] * (job.beside is not None)
            words += [f"on {listed(job.hosts)}"] * bool(job.hosts)
            words += [f"CPUs {','.join(map(str, job.cpus))}"] * bool(job.cpus)
            words += [f"started at {job.start_s}"] * (job.start_s is not None)
            words += [f"held for {job.held_s}"] * (job.held_s is not None) + ["backfilled"] * job.backfilled
            if job.estimate_s != job.request_s:
                sources = " ".join(f"{name} {value:g}" for name, value in sorted(job.estimates.items()))
                words.append(f"estimate {job.estimate_s:g} ({sources})")
            words += ["held"] * job.held + [f"after {' '.join(job.after)}"] * bool(job.after)
            words += ["too wide"] * (job.id in live.blocked.too_wide)
            words += [f"ends at {live.queue.expected_end_s(job.id)}"] * (job.id in running(live))
            line = f"{job.id} " + ", ".join(words)
            if self.shown.get(job.id) != line:
                self.shown[job.id] = line
                yield line
        yield f"{live.queue.free} free"


#: Words of options that are no numbers.
OPTIONS = {"no": False}
FIELDS = {"p": ("procs", int), "s": ("request_s", float), "o": ("at_once", int)}


def running(live):
    return {job.id for job in live.queue.running}


def literal(text):
    return float(text) if "." in text else int(text) if text.isdigit() else text


def field(word):
    """Return name and value of one part of a job's word."""
    if word[0] == "d":
        return "duties", tuple(map(float, word[1:].split("+")))
    if ":" in word:
        return "after", tuple(word.split("+"))
    if word[0] == "t":
        return "tasks", tuple(map(int, word[1:].split(".")))
    if word == "held":
        return word, True
    if word[0] == "m":
        return "model_s", float(word[1:])
    name, kind = FIELDS[word[-1]]
    return name, kind(word[:-1])


@pytest.mark.parametrize("name", ["queue", "guests", "reasons", "conditions"])
def test_instants_give_recorded_starts(bench, asked, tmp_path, golden, name):
    transcript = f"apples/livequeue/{name}.txt"
    golden(transcript, replay(transcript, QueueSession(bench, asked, tmp_path)))


def test_instants_are_different_although_the_clock_stands_still_or_goes_back(bench, asked):
    one = bench()
    for _ in range(3):
        one.at(7, asked())
    one.seconds = 2.0
    one.restart()
    one.at(2, asked())
    submitted = [record.submitted_s for record in one.store.all_jobs()]
    assert submitted == [7.0, 7.0 + 1 / 1024, 7.0 + 2 / 1024, 7.0 + 3 / 1024]


def test_instant_that_cannot_be_written_has_not_happened(bench, asked, monkeypatch):
    one = bench(processors=2)
    one.at(0, asked(procs=2))

    def full(*arguments, **numbers):
        raise HistoryError("jobs.db: cannot be written (disk is full); nothing of it was done")

    with monkeypatch.context() as patch:
        patch.setattr(one.store, "set_numbers", full)
        with pytest.raises(HistoryError, match="disk is full"):
            one.at(1, asked(procs=1))
    assert one.states() == {1: "running"}
    assert one.at(2, asked(procs=1)) == []
    assert one.at(3, ended=[1]) == [2]


def test_truth_is_no_source_of_a_live_queue(bench):
    with pytest.raises(ConfigError, match="actual run times are known in a replay only"):
        bench(source="actual")


JOBS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 4), st.integers(0, 15)),
    min_size=1,
    max_size=12,
)
POLICIES = st.sampled_from(
    [
        {},
        {"priority": "wfp"},
        {"priority": "sjf", "backfill": "none"},
        {"priority": "procs * 3 - wait / 7"},
        {"backfill": "conservative"},
        {"overrun": "half", "source": "history", "adjust": "regular", "minimum": 1, "floor": 0.1},
        {"overrun": "doubling", "source": "recent", "adjust": "regular", "last": 1},
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=JOBS, policy=POLICIES, restarts=st.sets(st.integers(0, 40)))
def test_replay_of_the_log_starts_the_same_jobs_at_the_same_instants(bench, asked, jobs, policy, restarts):
    """Whenever the manager was started anew."""
    with tempfile.TemporaryDirectory() as directory:
        one = bench(Path(directory), processors=4, **policy)
        by_submission = sorted(jobs)
        ends = {}
        steps = 0
        while by_submission or ends:
            now = min([*(job[0] for job in by_submission[:1]), *ends.values()])
            ended = [number for number, end in ends.items() if end <= now]
            came = [job for job in by_submission if job[0] <= now]
            by_submission = by_submission[len(came) :]
            submitted = [
                asked(token=f"{steps}-{n}", procs=procs, request_s=float(run + slack))
                for n, (_, run, procs, slack) in enumerate(came)
            ]
            known = one.store.all_jobs()
            runs = {len(known) + 1 + n: job[1] for n, job in enumerate(came)}
            RUNS.update(runs)
            for number in ended:
                del ends[number]
            for number in one.at(now, *submitted, ended=ended):
                ends[number] = one.live.clock.last_s + RUNS[number]
            steps += 1
            if steps in restarts:
                one.restart()
        document = requests.document(one.live, 0, PageRequest(all=True))
        log = parse_swf(swf_lines(document), "log")
        estimator = one.chosen.estimates.estimator()
        how = Replay(
            queue=one.chosen.settings(),
            switches=OFF if estimator is None else one.chosen.estimates.switches(),
            predict=True,
        )
        told = simulate(log.fitting(4), how, estimator)
        foreseen = {
            record.id: ForeseenWait.decoded(record.foreseen).start_range(record.submitted_s)
            for record in one.store.all_jobs()
            if record.foreseen
        }
        one.store.close()
    live = {job.id: job.instants.start_s for job in document.jobs}
    assert dict(zip(told.trace.id.tolist(), told.start.tolist(), strict=True)) == live
    predicted = dict(zip(told.trace.id.tolist(), told.predicted.tolist(), strict=True))
    assert {i: [one.median_s, one.low_s, one.high_s] for i, one in foreseen.items()} == {
        i: predicted[i] for i in foreseen
    }
    assert foreseen.keys() == {job.id for job in document.jobs if job.waited_s > 0}


RUNS = {}
"""Run time of the jobs of one example, by id."""


def test_supervisors_load_little():
    code = "import apples.livequeue.supervisor, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "numpy",
        "numba",
        "pydantic",
        "msgspec",
        "yaml",
        "click",
        "rich",
        "subprocess",
        "typing_extensions",
    }
    assert not heavy & set(done.stdout.split())


def test_long_queue_is_told_page_by_page(bench, asked, monkeypatch):
    monkeypatch.setattr(requests, "PAGE", 2)
    one = bench(processors=1)
    one.at(0, *(asked(procs=1) for _ in range(5)))
    pages, after = [], 0
    while after is not None:
        page = requests.document(one.live, 0, PageRequest(after=after))
        pages.append([(job.id, job.position) for job in page.jobs])
        after = page.more
    assert pages == [[(1, None), (2, 1)], [(3, 2), (4, 3)], [(5, 4)]]


def test_client_that_has_left_waits_for_no_job(bench, asked):
    one = bench(processors=1)
    one.at(0, asked(), asked())
    status = StatusRequests(one.live)
    clients = [SimpleNamespace(stream=SimpleNamespace(open=known), uid=0) for known in (True, False)]
    for client in clients:
        status.answer(client, "wait", 2)
    assert status._waiting == {2: clients[:1]}
