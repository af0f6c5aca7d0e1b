"""Jobs in a line, an event loop round the live queue, and EASY written down plainly beside the compiled one."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import QueueJob
from apples.queueing.settings import QueueSettings


@dataclass(frozen=True)
class Work:
    """What is true of a job: it runs `run` seconds, its user asks for `request`."""

    submit: int
    run: int
    procs: int
    request: int


def plain_easy(works, processors, score):
    """Start of every job under EASY in batch order. score : (work, now) → number, higher first."""
    start, ends, waiting = {}, {}, []
    times = sorted({work.submit for work in works})
    while times or ends:
        now = min([*times[:1], *ends.values()])
        ends = {job: end for job, end in ends.items() if end > now}
        times = times[1:] if times and times[0] == now else times
        waiting += [
            i for i, work in enumerate(works) if work.submit == now and i not in start and i not in waiting
        ]
        order = sorted(waiting, key=lambda i: (-score(works[i], now), i))
        free = processors - sum(works[i].procs for i in ends)

        begun = []
        while order and works[order[0]].procs <= free:
            free -= works[order[0]].procs
            begun.append(order.pop(0))
        running = {i: start[i] + works[i].request for i in ends} | {i: now + works[i].request for i in begun}
        if order:
            begun += _overtaking(works, order, running, (now, free))
        for i in begun:
            start[i], ends[i] = now, now + works[i].run
            waiting.remove(i)
    return [start[i] for i in range(len(works))]


def _overtaking(works, order, running, now_free):
    """Who backfills behind order[0]. running : expected end of each running job"""
    now, free = now_free
    head = works[order[0]]
    for shadow in sorted(running.values()):
        known = free + sum(works[i].procs for i in running if running[i] <= shadow)
        if known >= head.procs:
            break
    extra, found = known - head.procs, []
    for i in order[1:]:
        late = now + works[i].request > shadow
        if works[i].procs > free or (late and works[i].procs > extra):
            continue
        extra -= works[i].procs if late else 0
        free -= works[i].procs
        found.append(i)
    return found


SCORES = {
    "fcfs": lambda work, now: now - work.submit,
    "sjf": lambda work, now: -work.request,
    "wfp": lambda work, now: float(np.cbrt(float(work.procs))) / work.request * (now - work.submit),
    "procs * 3 - wait / 7": lambda work, now: work.procs * 3 - (now - work.submit) / 7,
}


class Live:
    """The live queue with a clock that jumps from event to event.

    passes : (time, reservation, did the top start) of each
    """

    def __init__(self, works, processors, settings=None, beliefs=None):
        self.queue = JobQueue(settings or QueueSettings(), processors)
        self.works, self.beliefs = works, beliefs or {}
        self.starts, self.ends, self.passes = {}, {}, []
        self.most, self.from_top = 0, False

    def run(self):
        """All jobs to their end; starts in order of the jobs."""
        times = sorted({work.submit for work in self.works})
        while times or self.ends:
            now = min([*times[:1], *self.ends.values()])
            for job in [job for job, end in self.ends.items() if end == now]:
                del self.ends[job]
                self.queue.end(job)
            if times and times[0] == now:
                times.pop(0)
                for i, work in enumerate(self.works):
                    if work.submit == now:
                        self.submit(i, work)
            self.step(now)
        return [self.starts[i] for i in range(len(self.works))]

    def submit(self, i, work):
        job = QueueJob(id=i, procs=work.procs, request_s=work.request, submit_s=work.submit)
        self.queue.submit(job, self.beliefs.get(i))

    def step(self, now):
        self.from_top = False
        for job in self.queue.start(now):
            self.from_top |= not self.queue.overtook(job.id)
            self.starts[job.id] = now
            self.ends[job.id] = now + self.works[job.id].run
        busy = sum(self.works[i].procs for i in self.ends)
        assert busy == self.queue.processors - self.queue.free
        self.most = max(self.most, busy)
        self.passes.append((now, self.queue.reservation(now), self.from_top))


def works(most_procs=8, over=0):
    """Short traces with many equal times. over : how far a run may exceed its request"""
    one = st.builds(
        lambda submit, run, procs, slack: Work(submit, run, procs, max(run + slack, 1)),
        st.integers(0, 40),
        st.integers(0, 20),
        st.integers(1, most_procs),
        st.integers(-over, 20),
    )
    return st.lists(one, min_size=1, max_size=25).map(lambda found: sorted(found, key=lambda w: w.submit))


@pytest.fixture(scope="session")
def easy():
    """(the plain EASY, its scores by priority, the strategy of traces, the live loop)."""
    return plain_easy, SCORES, works, Live


@pytest.fixture
def line():
    """Makes a live queue of 8 processors, with jobs submitted at 0 as (procs, request), numbered from 0."""

    def make(*jobs, settings=None, processors=8, beliefs=None):
        queue = JobQueue(settings or QueueSettings(), processors)
        for number, (procs, request) in enumerate(jobs):
            job = QueueJob(id=number, procs=procs, request_s=request, submit_s=0.0)
            queue.submit(job, (beliefs or {}).get(number))
        return queue

    return make


@pytest.fixture
def ids():
    """Numbers of jobs."""
    return lambda jobs: [job.id for job in jobs]
