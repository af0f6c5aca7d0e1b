"""The file `configs/queue.yaml`: policy and run time estimates, checked with file and line.

`apples.queueing.settings` and `apples.queueing.estimates` define the meaning of the values.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from apples.errors import ConfigError
from apples.model.config import find_config
from apples.queueing import expressions
from apples.queueing.estimates import Estimator, RecentRuns, RunTimeEnsemble, Scheme, SimilarJobs
from apples.queueing.jobs import OFF, SWITCHES, Switches
from apples.queueing.scoring import Scoreboard
from apples.queueing.settings import PRIORITIES, QueueSettings
from nws.base.durations import Duration_s, Period_s
from nws.base.quantities import ReadFrom, Within
from nws.base.reader import load_yaml
from nws.base.records import copied


def _priority(text: str) -> str:
    if text not in PRIORITIES:
        try:
            expressions.compile_expression(text)
        except ConfigError as error:
            raise ValueError(f"{error}; or one of {', '.join(PRIORITIES)}") from None
    return text


def parse_adjust(text: str) -> Switches:
    """Return where estimates are used: `regular`, `selective`, `off`, or a list of priority, backfill and running.

    Raises:
        ConfigError: the value is none of these.
    """
    if text in SWITCHES:
        return SWITCHES[text]
    words = [word.strip() for word in text.split(",")]
    legal = ("priority", "backfill", "running")
    wrong = [word for word in words if word not in legal]
    if wrong:
        raise ConfigError(
            f"adjust {text!r}: {', '.join(map(repr, wrong))} is unknown; legal are {', '.join(SWITCHES)}, "
            f"or a list of {', '.join(legal)}"
        )
    return Switches(priority="priority" in words, backfill="backfill" in words, running="running" in words)


def _adjust(text: str) -> str:
    parse_adjust(text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSection:
    """Section `queue`; see `apples.queueing.settings.QueueSettings`.

    backfill_order: None for shortest first where estimates are used for backfilling, else by priority.
    oversubscribe: jobs of a live queue that allow it may share processors. The simulator ignores it.
    """

    priority: Annotated[str, ReadFrom(_priority)] = "wfp"
    backfill: Literal["none", "easy", "conservative"] = "easy"
    backfill_order: Literal["priority", "shortest", "area"] | None = None
    delay_budget: Duration_s | Literal["none"] = 86400.0
    overrun: Literal["request", "increment", "doubling", "half"] = "request"
    increment: Period_s = 300.0
    oversubscribe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesSection:
    """Section `estimates`: source of run time estimates and their use; see `apples.queueing.estimates`.

    Source "actual" is the true run time, for simulations only. Value `learn_from` is also for simulations: a live queue
    learns from its own jobs.
    """

    source: Literal["request", "history", "recent", "ensemble", "actual"] = "ensemble"
    adjust: Annotated[str, ReadFrom(_adjust)] = "backfill"
    learn_from: Literal["simulation", "log"] = "simulation"
    key: Literal["all", "project", "user", "double", "triple"] = "triple"
    window: Period_s = 30 * 86400.0
    percentile: Annotated[float, Within(ge=0, le=100)] = 85.0
    floor: Annotated[float, Within(ge=0, le=1)] = 0.5
    minimum: Annotated[int, Within(ge=1)] = 10
    last: Annotated[int, Within(ge=1)] = 2

    @property
    def scheme(self) -> Scheme:
        """Return the adjustment by similar jobs."""
        return copied(Scheme, self, window_s=self.window)

    def switches(self) -> Switches:
        """Return where estimates replace requests: nowhere if the source is the request."""
        return OFF if self.source == "request" else parse_adjust(self.adjust)

    def estimator(self) -> Scoreboard | None:
        """Return an estimator that is scored against the other source, or None if the source does not learn."""
        return None if self.source in ("request", "actual") else self.scoreboard()

    def scoreboard(self) -> Scoreboard:
        """Return a scoreboard of all sources. History decides unless the source is another one that learns."""
        sources: dict[str, Estimator] = {
            "history": SimilarJobs(self.scheme),
            "recent": RecentRuns(self.last),
            "ensemble": RunTimeEnsemble(),
        }
        return Scoreboard(self.source if self.source in sources else "history", sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSection:
    """Section `limits`: of each user of a live queue. The simulator ignores them.

    connections: open connections to the manager.
    waiting: waiting jobs.
    processors: that waiting and running jobs request together, None without limit.
    job_bytes: of one request, with command and environment.
    stored_bytes: of all waiting and running jobs in the store.
    """

    connections: Annotated[int, Within(ge=1)] = 128
    waiting: Annotated[int, Within(ge=1)] = 10_000
    processors: Annotated[int, Within(ge=1)] | None = None
    job_bytes: Annotated[int, Within(ge=1024)] = 1 << 20
    stored_bytes: Annotated[int, Within(ge=1024)] = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFile:
    """Contents of the file."""

    queue: QueueSection = field(default_factory=QueueSection)
    estimates: EstimatesSection = field(default_factory=EstimatesSection)
    limits: LimitsSection = field(default_factory=LimitsSection)

    def settings(self) -> QueueSettings:
        """Return the settings of the policy."""
        queue = self.queue
        return copied(
            QueueSettings,
            queue,
            backfill_order=queue.backfill_order
            or ("shortest" if self.estimates.switches().backfill else "priority"),
            delay_budget_s=math.inf if queue.delay_budget == "none" else float(queue.delay_budget),
            increment_s=queue.increment,
        )


def load_queue_file(name: str | Path) -> QueueFile:
    """Return the contents of a file, or of a shipped one by name; raise `ConfigError` with every problem."""
    return load_yaml(find_config(name), QueueFile)
