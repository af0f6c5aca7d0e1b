"""Plans, their ranks and observations of them, with values where a test does not care."""

from apples.model.plan import Assignment, Plan, RankObservation

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
