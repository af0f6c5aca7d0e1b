"""Models of the requests on a node manager's socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from apples.daemons.paths import checked_name
from apples.errors import ConfigError
from apples.monitoring.names import LEGAL, LONGEST

#: Longest path of Linux with its NUL, and ranks of one job; more is a mistake. No pid of Linux is larger either.
_PATH, _MOST_RANKS = 4096, 1 << 22


def _job(text: str) -> str:
    try:
        return checked_name(text, what="job")
    except ConfigError:
        raise ValueError(f"expected {LEGAL}") from None


def _path(text: str) -> str:
    if 0 in os.fsencode(text):
        raise ValueError("a path without NUL is legal")
    return text


class RegisterRequest(BaseModel):
    """The argument of `register`. pid : without it, the process that is connected.  page : of its monitor"""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    job: Annotated[str, AfterValidator(_job)]
    rank: Annotated[int, Field(ge=0)]
    ranks: Annotated[int, Field(ge=1, le=_MOST_RANKS)]
    pid: Annotated[int, Field(ge=1, le=_MOST_RANKS)] | None = None
    page: Annotated[str, Field(max_length=_PATH), AfterValidator(_path)] | None = None

    @model_validator(mode="after")
    def _within(self) -> RegisterRequest:
        if self.rank >= self.ranks:
            raise ValueError("a rank below the number of ranks is legal")
        return self


_NOTHING: TypeAdapter[Any] = TypeAdapter(None)

#: Requests with the type of their argument.
NODE_REQUESTS: Mapping[str, TypeAdapter[Any]] = {
    "register": TypeAdapter(RegisterRequest),
    "status": _NOTHING,
    "view": _NOTHING,
    "job": TypeAdapter(Annotated[str, Field(strict=True, max_length=LONGEST)]),
    "beats": _NOTHING,
    "hold": _NOTHING,
    "schedule": _NOTHING,
}
