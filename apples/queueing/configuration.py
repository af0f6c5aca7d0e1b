"""The file `configs/queue.yaml`: how a queue decides and how run times are estimated, checked with file and line.

What the choices mean is decided by `apples.queueing.settings` and `apples.queueing.estimates`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from apples.errors import ConfigError
from apples.model.config import find_config
from apples.queueing import expressions
from apples.queueing.estimates import Estimator, RecentRuns, Scheme, SimilarJobs
from apples.queueing.jobs import OFF, SWITCHES, Switches
from apples.queueing.scoring import Scoreboard
from apples.queueing.settings import PRIORITIES, QueueSettings
from nws.base.durations import Period_s
from nws.base.reader import load_yaml


def _priority(text: str) -> str:
    if text not in PRIORITIES:
        try:
            expressions.compile_expression(text)
        except ConfigError as error:
            raise ValueError(f"{error}; or one of {', '.join(PRIORITIES)}") from None
    return text


def parse_adjust(text: str) -> Switches:
    """Where estimates are used: `regular`, `selective`, `off`, or a list of priority, backfill, running.

    Raises `ConfigError`.
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
    try:
        parse_adjust(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSection:
    """See `apples.queueing.settings.QueueSettings`."""

    priority: Annotated[str, AfterValidator(_priority)] = "fcfs"
    backfill: Literal["none", "easy", "conservative"] = "easy"
    overrun: Literal["request", "increment", "doubling", "half"] = "request"
    increment: Period_s = 300.0

    def settings(self) -> QueueSettings:
        """As the queue takes it."""
        return QueueSettings(
            priority=self.priority, backfill=self.backfill, overrun=self.overrun, increment_s=self.increment
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatesSection:
    """Where estimates come from and where they are used; see `apples.queueing.estimates`.

    source : "actual" is the truth, for simulations only.  learn_from : of simulations too; a live queue learns from its
    own ends
    """

    source: Literal["request", "history", "recent", "actual"] = "request"
    adjust: Annotated[str, AfterValidator(_adjust)] = "selective"
    learn_from: Literal["simulation", "log"] = "simulation"
    key: Literal["all", "project", "user", "double", "triple"] = "triple"
    window: Period_s = 30 * 86400.0
    percentile: Annotated[float, Field(ge=0, le=100)] = 85.0
    floor: Annotated[float, Field(ge=0, le=1)] = 0.5
    minimum: Annotated[int, Field(ge=1)] = 10
    last: Annotated[int, Field(ge=1)] = 2

    @property
    def scheme(self) -> Scheme:
        """The adjustment by similar jobs."""
        return Scheme(
            key=self.key,
            window_s=self.window,
            percentile=self.percentile,
            floor=self.floor,
            minimum=self.minimum,
        )

    def switches(self) -> Switches:
        """Where estimates take the requests' place; nowhere when requests are all there is."""
        return OFF if self.source == "request" else parse_adjust(self.adjust)

    def estimator(self) -> Scoreboard | None:
        """What learns from ends, with the other source beside it for comparison; None when nothing needs to."""
        return self.scoreboard() if self.source in ("history", "recent") else None

    def scoreboard(self) -> Scoreboard:
        """The same where estimates are wanted in any case; history's, unless the source is another that learns."""
        sources: dict[str, Estimator] = {
            "history": SimilarJobs(self.scheme),
            "recent": RecentRuns(self.last),
        }
        return Scoreboard("recent" if self.source == "recent" else "history", sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFile:
    """The whole file."""

    queue: QueueSection = field(default_factory=QueueSection)
    estimates: EstimatesSection = field(default_factory=EstimatesSection)


def load_queue_file(name: str | Path) -> QueueFile:
    """A file, or a shipped one by name; raises `ConfigError` with every problem."""
    return load_yaml(find_config(name), QueueFile)
