"""The performance model's prediction of a run, as of `apples-run`, if the application is calibrated.

Nothing is benchmarked here: without benchmarks or finished runs of every kind of host there is no answer, and the
history of similar jobs is used. The hosts are measured for a moment, as before a run.
"""

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted run time.

    seconds : expected, with measuring and planning.  low_s, high_s : likely range of the run alone.  ranks : number
    """

    seconds: float
    low_s: float
    high_s: float
    ranks: int


def predict(words: str) -> Prediction | str:
    """Return the prediction of `apples-run WORDS`, or the reason for none; raise `ConfigError`, `NoFeasiblePlan`."""
    import click

    from apples.cli.assemble import assemble
    from apples.cli.console import Console
    from apples.cli.optiongroups import record_of
    from apples.cli.run import run
    from apples.cli.runoptions import RunOptions
    from apples.errors import ConfigError
    from apples.learning.stores import open_benchmarks, open_history
    from apples.run.costing import Costing

    try:
        given = run.make_context("apples-run", shlex.split(words)).params
    except (click.ClickException, ValueError) as error:
        reason = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise ConfigError(f"--model {words!r}: {reason}; expected the words after `apples-run`") from None
    size = int(given["size"])
    agent, request = assemble(size, record_of(RunOptions, given), Console(quiet=True))
    costs = Costing(open_benchmarks(), open_history()).known(agent.platform, request)
    missing = sorted({host.cpu_type for host in agent.platform.pool.hosts} - set(costs.seconds_per_row))
    if missing:
        return (
            f"{request.template.name} is not calibrated on {', '.join(missing)}; `apples calibrate` or a first "
            "apples-run does that"
        )
    decision = agent.decide(request)
    plan = decision.plan
    return Prediction(
        seconds=plan.predicted_s + decision.weather_s + decision.planning_s,
        low_s=plan.low_s,
        high_s=plan.high_s,
        ranks=len(plan.assignments),
    )
