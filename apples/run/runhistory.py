"""Past runs from Python: `history` returns them as rows, for pandas and as a plot of predicted against observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from apples.costs.store import open_history
from apples.errors import ConfigError
from apples.model.plan import Record
from apples.run.documents import error
from nws.base.arguments import checked_arguments
from nws.base.command import missing
from nws.base.notebook import Tabular
from nws.base.records import copied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of the history; fields as in its record and plan.

    ranks, hosts : of the first plan
    error : (predicted - observed) / observed; None unless the first plan finished
    attempts : launches, None for a single one.  ended : None if it has not ended, or its agent was killed
    """

    id: str
    started_at: float
    world: str
    application: str
    size: int
    scheduler: str
    ranks: int
    hosts: tuple[str, ...]
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    observed_s: float | None
    error: float | None
    attempts: int | None
    ended: str | None

    @staticmethod
    def of(record: Record) -> RunSummary:
        """Return the row of a record."""
        outcome, plan = record.outcome, record.plan
        return copied(
            RunSummary,
            plan,
            id=record.id,
            started_at=record.started_at,
            world=record.world,
            ranks=len(plan.assignments),
            hosts=tuple(plan.hosts),
            observed_s=None if outcome is None else outcome.observed_s,
            # It is of the first plan, which did not finish if there were more.
            error=None if outcome is None or len(record.attempts) > 1 else error(plan.predicted_s, outcome),
            attempts=len(record.attempts) or None,
            ended=None if outcome is None else outcome.ended,
        )


class RunHistory(tuple[RunSummary, ...], Tabular):
    """Past runs, oldest first."""

    def table(self) -> Iterable[Mapping[str, object]]:
        """Return one row for each run."""
        return map(asdict, self)

    def to_pandas(self) -> DataFrame:
        """Return a data frame with one row for each run; raise `ConfigError` without pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise ConfigError(f"to_pandas {missing('pandas')}") from None
        return DataFrame(list(self.table()))

    def plot(self) -> Axes:
        """Plot predicted against observed seconds with ranges, one colour for each application; needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ConfigError(f"plot {missing('matplotlib')}") from None
        axes = Figure(layout="constrained").subplots()
        axes.set(xscale="log", yscale="log", xlabel="observed, s", ylabel="predicted, s")
        for application in dict.fromkeys(run.application for run in self if run.error is not None):
            spans = [
                (run.observed_s, run.predicted_s, run.low_s or run.predicted_s, run.high_s or run.predicted_s)
                for run in self
                if run.application == application and run.error is not None
            ]
            observed, predicted, low, high = zip(*spans, strict=True)
            (dots,) = axes.plot(observed, predicted, "o", label=application)
            axes.vlines(observed, low, high, color=dots.get_color())
        # The line of right predictions, as far as there are runs: asking for the limits settles them.
        ends = axes.get_xlim()
        axes.plot(ends, ends, color="grey", linewidth=0.8, scalex=False, scaley=False)
        axes.legend()
        return axes


@checked_arguments(ConfigError)
def history(*, app: str | None = None, newest: int | None = None) -> RunHistory:
    """Return past runs of this user, oldest first; raise `HistoryError` if their file cannot be read.

    Args:
        app: only runs of this application.
        newest: only so many, the newest ones.
    """
    records = open_history(lambda line: None, strict=True).records(application=app, newest=newest)
    return RunHistory(map(RunSummary.of, records))
