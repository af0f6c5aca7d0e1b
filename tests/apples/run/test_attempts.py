"""What is worth another attempt, and without whom."""

from apples.model.plan import Outcome, RankStatus
from apples.run.attempts import what_next
from tests.transcripts import recorded


@recorded("apples/run/attempts.txt", "why", "ended", "ranks", "limits")
def test_next_step_after_an_attempt_is_as_recorded(answered, why, ended, ranks, limits):
    statuses = tuple(
        RankStatus(rank=k, host=f"a{k + 1}", **({"exit_code": None, "pid": 7} | rank))
        for k, rank in enumerate(ranks)
    )
    values = {"ended": "failed", "exit_code": 125, "observed_s": 3.0, "message": "…"}
    given = {"pool": ("a1", "a2", "a3"), "failures": 1, "limit": 3} | limits
    step = what_next(Outcome(statuses=statuses, **(values | ended)), **given)
    answered(f"{'again' if step.again else 'ended'}: {step.why} {dict(step.without)}")
