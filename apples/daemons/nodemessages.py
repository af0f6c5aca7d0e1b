"""Strict models of the documents that a node sends its manager; each is checked whole before any of it counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from apples.daemons.ipc.wire import Forged, Json

Name = Annotated[str, Field(min_length=1, max_length=255)]
Word = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Rank = Annotated[int, Field(ge=0, lt=1 << 20)]
Processors = Annotated[int, Field(ge=1, le=1 << 16)]
Slot = Annotated[int, Field(ge=0, lt=1 << 16)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True)


class _Process(_Model):
    job: Name
    rank: Rank
    ranks: Annotated[int, Field(ge=1, le=1 << 20)]
    uid: Annotated[int, Field(ge=0, lt=2**32)]

    @model_validator(mode="after")
    def _within(self) -> _Process:
        if self.rank >= self.ranks:
            raise ValueError("a rank below the number of ranks is legal")
        return self


class _End(_Model):
    job: Name
    rank: Rank


class _Placed(_Model):
    slot: Slot | None
    nodes: list[Name]
    processors: dict[Annotated[str, Field(pattern=r"^[0-9]{1,7}$")], Count] = {}


class _Report(_Model):
    silent: bool
    multicast: bool


class _Line(_Model):
    registered: _Process = Field(default=None)  # type: ignore[assignment]
    ended: _End = Field(default=None)  # type: ignore[assignment]
    status: _Report = Field(default=None)  # type: ignore[assignment]
    ask: Count = 0


class _Hello(_Model):
    node: Name
    word: Word
    nonce: Word
    policy: str
    processors: Processors
    shown: Annotated[int, Field(ge=0, lt=2**63)]
    processes: list[_Process]
    placed: dict[Name, _Placed]


def checked_hello(document: Json) -> Json:
    """Return the introduction of a node unchanged; raises `Forged` if a part of it is not legal."""
    return _checked(_Hello, document)


def checked_line(document: Json) -> Json:
    """Return a later line of a node unchanged; raises `Forged` if a part of it is not legal."""
    return _checked(_Line, document)


def _checked(model: type[_Model], document: Json) -> Json:
    try:
        model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Forged(f"a line that is not legal: {place[:200]!r}: {first['msg']}") from None
    return document
