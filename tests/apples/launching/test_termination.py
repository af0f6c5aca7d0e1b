"""How runs are ended, told to the state machine with made-up times; nothing waits here."""

from __future__ import annotations

from signal import Signals

from apples.launching.termination import Forward, GracePeriods, Termination
from tests.transcripts import replay


class TerminationSession:
    """Commands of transcripts: events of a run, answered with instructions, step, cause and the next instant."""

    def new(self, limit=None):
        grace = GracePeriods(together_s=0.5, failure_s=1.0, request_s=5.0, cut_s=2.0)
        limit_s = None if limit is None else float(limit)
        self.run = Termination(started=100.0, time_limit_s=limit_s, grace=grace)

    def signal(self, name, now):
        return self.state(self.run.signalled(Signals[f"SIG{name}"], float(now)))

    def fail(self, now):
        return self.state(self.run.rank_failed(float(now)))

    def tick(self, now):
        return self.state(self.run.tick(float(now)))

    def adapt(self):
        return self.state(self.run.adapt())

    def over(self):
        return self.state(self.run.over() or [])

    def state(self, instructions):
        for one in instructions:
            yield f"forward {one.signal.name}" if isinstance(one, Forward) else type(one).__name__
        interrupt = f", interrupted by {self.run.interrupt.name}" if self.run.interrupt else ""
        yield f"{self.run.step.name.lower()}, cause {self.run.cause}{interrupt}; next {self.run.wake_at}"


def test_events_of_a_run_give_recorded_instructions(golden):
    golden(
        "apples/launching/terminations.txt",
        replay("apples/launching/terminations.txt", TerminationSession()),
    )
