"""Plans and runs from Python: `plan` measures and plans, and the planned run can be carried out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack, get_type_hints

from apples.costs.store import open_history
from apples.errors import ConfigError
from apples.model.config import find_config
from apples.model.gridfile import load_grid_file
from apples.model.launchrequest import Notify
from apples.model.pieces import Pieces, pieces_of
from apples.model.plan import Plan, Record
from apples.model.runrequest import Benchmarks, RunRequest
from apples.planning.planningoptions import PlanningKeywords
from apples.platforms.local import LocalPlatform
from apples.platforms.serviceforecasts import ServiceWeather
from apples.run.agent import SCHEDULERS, Agent, Decision
from apples.run.loop import AttemptLoop
from apples.run.program import find_template
from nws.base.arguments import checked_arguments, type_problems
from nws.base.notebook import Tabular
from nws.client import Endpoint


def _ignore(text: str) -> None:
    """Discard a message."""


class PlannedRun(Tabular):
    """A plan on this machine or for the hosts of a grid file, with the values it was made from.

    decision : plan, snapshot of the forecasts, costs and notes
    """

    def __init__(self, agent: Agent, request: RunRequest) -> None:
        self._loop = AttemptLoop(agent, request)
        self.decision: Decision = self._loop.decide()

    def __repr__(self) -> str:
        plan = self.plan
        return f"<{plan.application} {plan.size} on {len(plan.assignments)} ranks: {plan.predicted_s:.3g} s>"

    def table(self) -> Iterable[Mapping[str, object]]:
        """Return one row for each rank of the plan."""
        return self.plan.table()

    @property
    def plan(self) -> Plan:
        """Return the chain of hosts with slab heights and predicted times."""
        return self.decision.plan

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `apples-run --dry-run --json`."""
        return self.decision.document()

    @property
    def pieces(self) -> Pieces:
        """Return the numbers of the plan, for a job that is started without this package."""
        return pieces_of(self.decision.plan)

    def run(self) -> Record:
        """Run the application and return its record, which is also in the history.

        A run that fails raises no exception: `record.outcome` tells how it ended. Raise `LaunchError` if the plan has
        hosts that are not this machine, or if the ranks cannot be started.
        """
        return self._loop.run(self.decision)


@checked_arguments(ConfigError)
def plan(
    size: int,
    *,
    app: str | Path | None = None,
    settings: Mapping[str, object] | None = None,
    grid: str | Path | None = None,
    service: Endpoint | str | None = None,
    time_limit_s: float | None = None,
    scheduler: str = "apples",
    notify: Notify = _ignore,
    **options: Unpack[PlanningKeywords],
) -> PlannedRun:
    """Measure, predict and plan a run; start no program except benchmarks of a built-in application.

    Args:
        size: rows.
        app: application, by default that of `apples-run`; one of the grid file's is legal, and an application file,
            whose program must have been measured (`apples app check`).
        settings: options of the application, by name.
        grid: grid file, or the name of a shipped one; None for this machine.
        service: weather service whose forecasts are used; None to measure this machine.
        time_limit_s: wall seconds after which the run is ended.
        scheduler: "apples", "paper", "default" or "smart-user".
        notify: receives one line for each step.
        options: fields of `apples.planning.planningoptions.PlanningOptions`, such as `max_ranks`.

    Raises:
        ConfigError: an argument or a file is not legal.
        NoFeasiblePlan: no choice of hosts can hold the work.
    """
    legal = get_type_hints(PlanningKeywords)
    problems = [
        f"{name}: no argument of plan; legal are {', '.join(legal)}" for name in options.keys() - legal.keys()
    ]
    problems += type_problems(options, legal)
    if scheduler not in SCHEDULERS:
        problems.append(f"scheduler: expected {' or '.join(SCHEDULERS)}; got {scheduler!r}")
    if time_limit_s is not None and not time_limit_s > 0:
        problems.append(f"time_limit_s: expected more than 0 seconds; got {time_limit_s!r}")
    if not all(isinstance(name, str) for name in settings or {}):
        problems.append(f"settings: expected texts as names; got {settings!r}")
    if problems:
        raise ConfigError(problems)
    file = None if grid is None else load_grid_file(find_config(str(grid)))
    endpoint = Endpoint.of(service) if isinstance(service, str) else service
    weather = None if endpoint is None else ServiceWeather(endpoint)
    platform = LocalPlatform(None if file is None else file.grid, service=weather)
    applied = {} if file is None else file.applications
    stated = {name: entry.costs for name, entry in applied.items() if entry.costs is not None}
    request = RunRequest(
        size=size,
        template=find_template(None if app is None else str(app), platform, file),
        settings={name: str(value) for name, value in (settings or {}).items()},
        scheduler=scheduler,
        overrides=options if file is None or not file.limits else {"limits": file.limits, **options},
        time_limit_s=time_limit_s,
        polling=True,
        benchmarks=Benchmarks.BUILT_IN,
    )
    return PlannedRun(Agent(platform, open_history(notify), notify, stated=stated), request)
