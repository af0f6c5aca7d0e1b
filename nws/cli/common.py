"""What several commands share: their options, and opening a memory that must be there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from nws.base.errors import StoreError, UnknownName
from nws.series import Series

_F = TypeVar("_F", bound=Callable[..., Any])


def store_option(command: _F) -> _F:
    """``--store FILE``."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path),
        help="File the measurements are kept in; default: weather.db in $APPLES_STATE, "
        "$XDG_STATE_HOME/apples or ~/.local/state/apples.",
    )(command)


def json_option(command: _F) -> _F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def existing(store: Path | None) -> Path:
    """The memory's file; raises `StoreError` when nothing was ever kept there."""
    from nws.client import weather_file

    path = store or weather_file()
    if not path.exists():
        raise StoreError(f"{path}: no measurements are kept there yet; run `nws measure` first")
    return path


def chosen(names: Iterable[str], known: Iterable[Series]) -> list[Series]:
    """Series of those names, all known ones without any; raises `UnknownName` naming all that are unknown."""
    order = sorted(known, key=str)
    wanted = [Series.parse(name) for name in names]
    unknown = [str(s) for s in wanted if s not in order]
    if unknown:
        raise UnknownName(
            f"no measurements of {', '.join(unknown)}; known are {', '.join(map(str, order)) or 'none'}"
        )
    return wanted or order


def echo_json(document: object) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None
