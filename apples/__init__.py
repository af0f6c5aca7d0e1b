"""AppLeS agent: from a problem size to a finished, explained MPI run on shared hosts.

The public names, imported when they are first used:

>>> import apples
>>> planned = apples.plan(1000, app="pmhd3d", grid="centurion")
>>> len(planned.plan.hosts), f"{planned.plan.predicted_s:.0f} s"
(10, '46 s')

`docs/python-api.md` has an example of each.
"""

from __future__ import annotations

from nws.base.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    # typing alone would take 10 ms of every rank's start.
    from apples.costs.store import History
    from apples.errors import (
        ApplesError,
        ConfigError,
        HistoryError,
        LaunchError,
        MonitorError,
        NoDaemon,
        NoFeasiblePlan,
        NotExecutable,
        ProgramNotFound,
        RequestRejected,
        SharingError,
        UnknownJob,
        UnknownRun,
    )
    from apples.livequeue.jobs import SubmittedJob, submit
    from apples.livequeue.records import JobEnd
    from apples.model.grid import Grid, Host
    from apples.model.gridfile import load_grid
    from apples.model.plan import Assignment, Outcome, Plan, Record
    from apples.run.planned import PlannedRun, plan

__all__ = [
    "ApplesError",
    "Assignment",
    "ConfigError",
    "Grid",
    "History",
    "HistoryError",
    "Host",
    "JobEnd",
    "LaunchError",
    "MonitorError",
    "NoDaemon",
    "NoFeasiblePlan",
    "NotExecutable",
    "Outcome",
    "Plan",
    "PlannedRun",
    "ProgramNotFound",
    "Record",
    "RequestRejected",
    "SharingError",
    "SubmittedJob",
    "UnknownJob",
    "UnknownRun",
    "load_grid",
    "plan",
    "submit",
]

_MODULES = {
    "apples.costs.store": ("History",),
    "apples.livequeue.jobs": ("SubmittedJob", "submit"),
    "apples.livequeue.records": ("JobEnd",),
    "apples.model.grid": ("Grid", "Host"),
    "apples.model.gridfile": ("load_grid",),
    "apples.model.plan": ("Assignment", "Outcome", "Plan", "Record"),
    "apples.run.planned": ("PlannedRun", "plan"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__getattr__ = lazy_names(__name__, {name: _PLACES.get(name, "apples.errors") for name in __all__})
