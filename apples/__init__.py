"""AppLeS agent: from a problem size to a finished, explained MPI run on shared hosts.

The public names, imported when they are first used:

>>> import apples
>>> planned = apples.plan(1000, app="pmhd3d", grid="centurion")
>>> len(planned.plan.hosts), f"{planned.plan.predicted_s:.0f} s"
(10, '50 s')

`docs/python-api.md` has an example of each.
"""

from __future__ import annotations

from nws.base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    # typing alone would take 10 ms of every rank's start.
    from apples.costs.store import History as History
    from apples.errors import (
        ApplesError as ApplesError,
        ConfigError as ConfigError,
        HistoryError as HistoryError,
        LaunchError as LaunchError,
        MonitorError as MonitorError,
        NoDaemon as NoDaemon,
        NoFeasiblePlan as NoFeasiblePlan,
        NotExecutable as NotExecutable,
        ProgramNotFound as ProgramNotFound,
        RequestRejected as RequestRejected,
        SharingError as SharingError,
        UnknownJob as UnknownJob,
        UnknownRun as UnknownRun,
    )
    from apples.livequeue.jobs import SubmittedJob as SubmittedJob, submit as submit
    from apples.livequeue.records import JobEnd as JobEnd
    from apples.model.grid import Grid as Grid, Host as Host
    from apples.model.gridfile import load_grid as load_grid
    from apples.model.plan import Assignment as Assignment, Outcome as Outcome, Plan as Plan, Record as Record
    from apples.run.planned import PlannedRun as PlannedRun, plan as plan

_MODULES = {
    "apples.costs.store": "History",
    "apples.errors": "ApplesError ConfigError HistoryError LaunchError MonitorError NoDaemon NoFeasiblePlan "
    "NotExecutable ProgramNotFound RequestRejected SharingError UnknownJob UnknownRun",
    "apples.livequeue.jobs": "SubmittedJob submit",
    "apples.livequeue.records": "JobEnd",
    "apples.model.grid": "Grid Host",
    "apples.model.gridfile": "load_grid",
    "apples.model.plan": "Assignment Outcome Plan Record",
    "apples.run.planned": "PlannedRun plan",
}

__getattr__, __all__ = lazy_names(__name__, _MODULES)
