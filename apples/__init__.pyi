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
from apples.run.runhistory import RunHistory as RunHistory, RunSummary as RunSummary, history as history

__version__: str
