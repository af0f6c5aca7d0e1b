"""Plans, their ranks and observations of them, with values where a test does not care."""

from apples.model.plan import Assignment, Attempt, Plan, RankObservation, Record
from apples.model.progress import Progress

NO_TIMES = {"setup_s": 0.0, "compute_s": 0.0, "communicate_s": 0.0, "wait_s": 0.0, "total_s": 0.0}


def an_assignment(rank=0, host="h0", rows=64, **given):
    """Rank `rank` on slot 0 of its host."""
    times = {"slot": 0, "compute_s": 1.0, "communicate_s": 0.0, "overhead_s": 0.0}
    return Assignment(rank=rank, host=host, rows=rows, **(times | given))


def an_observation(rank=0, host="h0", rows=64, **given):
    """What a rank recorded of itself."""
    return RankObservation(rank=rank, host=host, rows=rows, **({"iterations": 10} | NO_TIMES | given))


def a_plan(*assignments, **given):
    """A plan of these ranks, or of one; `low_s` and `high_s` are `predicted_s`."""
    assignments = assignments or (an_assignment(),)
    seconds = given.get("predicted_s", 10.0)
    values = {
        "scheduler": "apples",
        "application": "heat",
        "size": sum(a.rows for a in assignments),
        "model": "exchange",
        "predicted_s": seconds,
        "low_s": seconds,
        "high_s": seconds,
    }
    return Plan(assignments=assignments, **(values | given))


def a_record(plan, outcome, **given):
    """A record of a run of this plan."""
    values = {"id": "1", "started_at": 0.0, "world": "ssh", "key": "k"}
    return Record(plan=plan, outcome=outcome, **(values | given))


def an_attempt(plan, outcome, **given):
    """A launch of all of a run."""
    values = {"number": 1, "started_at": 0.0, "first_iteration": 0, "iterations": 100}
    return Attempt(plan=plan, outcome=outcome, **(values | given))


def a_stretch(rows, row_s, iteration, **given):
    """Progress over ten iterations whose ranks take `row_s` for a row, and no time to exchange."""
    compute = tuple(10 * r * s for r, s in zip(rows, row_s, strict=True))
    none = (0.0,) * len(rows)
    values = {"left": 1000.0, "iterations": 10, "seconds": max(compute), "exchange_s": none, "reduce_s": none}
    return Progress(iteration=iteration, rows=rows, **({"compute_s": compute} | values | given))
