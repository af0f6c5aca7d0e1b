"""The live queue, call by call: what goes in, what starts, what is promised, and what is refused."""

from apples.errors import ConfigError
from apples.queueing.easyqueue import JobQueue
from apples.queueing.jobs import Beliefs, QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.settings import QueueSettings
from tests.transcripts import replay


class Session:
    """A queue of 8 processors unless told otherwise; answers are numbers of jobs, or why a call is refused."""

    def __getattribute__(self, name):
        method = super().__getattribute__(name)
        if name.startswith("_"):
            return method

        def answered(*words, **options):
            try:
                return method(*words, **options)
            except ConfigError as refusal:
                return [f"refused: {problem}" for problem in str(refusal).splitlines()]

        return answered

    def queue(self, *jobs, processors="8", believed="", **settings):
        """jobs : PROCS,REQUEST, numbered from 0.  believed : JOB:SECONDS, or JOB:SECONDS:AS IT RUNS"""
        self._beliefs = {}
        for each in filter(None, believed.split(",")):
            job, *seconds = each.split(":")
            first, last = float(seconds[0]), float(seconds[-1])
            self._beliefs[int(job)] = Beliefs(priority_s=first, backfill_s=first, running_s=last)
        if "increment_s" in settings:
            settings["increment_s"] = float(settings["increment_s"])
        self._queue = JobQueue(QueueSettings(**settings), int(processors))
        for number, job in enumerate(jobs):
            self._put(number, *job.split(","))

    def _put(self, number, procs, request, at="0"):
        number = int(number)
        job = QueueJob(id=number, procs=int(procs), request_s=float(request), submit_s=float(at))
        self._queue.submit(job, self._beliefs.get(number))

    def submit(self, number, procs, request, at="0"):
        self._put(number, procs, request, at)

    def start(self, now):
        jobs = [job.id for job in self._queue.start(float(now))]
        ends = {job.id: self._queue.expected_end_s(job.id) for job in self._queue.running}
        waiting = [job.id for job in self._queue.waiting]
        return [f"starts {jobs}, waiting {waiting}, {self._queue.free} free, ends {ends}"]

    def end(self, number):
        self._queue.end(int(number))

    def reservation(self, now):
        promised = self._queue.reservation(float(now))
        if promised is None:
            return ["none"]
        return [f"job {promised.job.id} at {promised.at_s:g}, {promised.extra} to spare"]

    def planned(self, *numbers):
        """When each of these jobs is planned to start and expected to end, and whether it overtook another."""
        for number in map(int, numbers):
            start, end = self._queue.planned_start_s(number), self._queue.expected_end_s(number)
            yield f"job {number}: starts {start}, ends {end}, overtook {self._queue.overtook(number)}"

    def predict(self, now, shares=""):
        """shares : of their requests that earlier jobs used"""
        past = PastRuns()
        for share in filter(None, shares.split(",")):
            past.ended(QueueJob(id=0, procs=1, request_s=1.0, submit_s=0.0), float(share))
        for job, wait in self._queue.sample_waits(float(now), past).items():
            median, low, high = (float(now) + s for s in (wait.median_s, wait.low_s, wait.high_s))
            yield f"job {job} at {median:g}, between {low:g} and {high:g}"


def test_queue_answers_as_recorded(golden):
    transcript = "apples/queueing/sessions.txt"
    golden(transcript, replay(transcript, Session()))


def test_it_grows_with_the_jobs_in_it_and_no_further(ids):
    queue = JobQueue(QueueSettings(), 1)
    for number in range(1000):
        queue.submit(QueueJob(id=number, procs=1, request_s=5, submit_s=number))
    started = []
    for now in range(1000, 2000):
        (job,) = queue.start(now)
        started.append(job.id)
        queue.end(job.id)
        queue.submit(QueueJob(id=now, procs=1, request_s=5, submit_s=now))
    assert started == list(range(1000))
    assert ids(queue.waiting) == list(range(1000, 2000))
