"""Predicted starts of the jobs of a trace, each made at the job's submission, as the live queue makes them."""

import numpy as np

from apples.queueing.ahead import present_slots, sample_waits
from apples.queueing.jobs import QueueJob
from apples.queueing.runtimes import PastRuns
from apples.queueing.startranges import ForeseenWait, StartRanges, learns_from
from apples.queueing.state import Floats, Ints, QueueState, Rules
from apples.simulation.batch.trace import Trace


class Foresight:
    """Predictions of one replay.

    predicted: float64[jobs, 3], s: median, low and high end. A job that starts at its submission has that time.
    """

    def __init__(self, trace: Trace, rules: Rules) -> None:
        """Start without knowledge of run times."""
        self._rules, self._submit, self._runs = rules, trace.submit, trace.run.tolist()
        columns = (trace.id, trace.procs, trace.request, trace.submit, trace.user)
        self._jobs = [
            QueueJob(id=number, procs=procs, request_s=request, submit_s=submit, user=str(user))
            for number, procs, request, submit, user in zip(*(c.tolist() for c in columns), strict=True)
        ]
        self._past, self._ranges = PastRuns(), StartRanges()
        self._foreseen: dict[int, ForeseenWait] = {}
        self.predicted = np.repeat(trace.submit[:, None], 3, axis=1)

    def ended(self, slots: Ints, ends_s: Floats) -> None:
        """Learn the run times of jobs that ended since the last submission."""
        for slot in slots[np.lexsort((slots, ends_s[slots]))].tolist():
            self._past.ended(self._jobs[slot], self._runs[slot])

    def submitted(self, state: QueueState, slots: range, now_s: float) -> None:
        """Predict the starts of jobs that were submitted now, after the pass of this instant."""
        self._learn_starts(state.jobs["start"])
        if not np.isnan(state.jobs["start"][slots.start : slots.stop]).any():
            return
        waiting, running = present_slots(state)
        jobs = [self._jobs[slot] for slot in np.concatenate([waiting, running]).tolist()]
        waits = sample_waits(state, self._rules, jobs, now_s, self._past)
        for slot, wait in zip(waiting.tolist(), waits, strict=True):
            if slot in slots:
                foreseen = self._ranges.foresee(wait)
                start = foreseen.start_range(now_s)
                self.predicted[slot] = start.median_s, start.low_s, start.high_s
                if learns_from(self._jobs[slot].id, len(waiting)):
                    self._foreseen[slot] = foreseen

    def _learn_starts(self, starts_s: Floats) -> None:
        """Learn from predicted jobs that have started since, in order of start."""
        predicted = np.fromiter(self._foreseen, np.int64, len(self._foreseen))
        started = predicted[~np.isnan(starts_s[predicted])]
        for slot in started[np.lexsort((started, starts_s[started]))].tolist():
            self._ranges.learn(self._foreseen.pop(slot), float(starts_s[slot] - self._submit[slot]))
