"""Common parts of the commands: shared options, and the file of an existing store."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from nws.base.command import FILE
from nws.base.errors import StoreError, UnknownName
from nws.base.records import document_of
from nws.series import Series

_F = TypeVar("_F", bound=Callable[..., Any])


def store_option(command: _F) -> _F:
    """Add the option ``--store FILE``."""
    return click.option(
        "--store",
        type=FILE,
        help="File of the measurements; default: weather.db in $APPLES_STATE, "
        "$XDG_STATE_HOME/apples or ~/.local/state/apples.",
    )(command)


def json_option(command: _F) -> _F:
    """Add the option ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def existing(store: Path | None) -> Path:
    """Return the memory's file; raises `StoreError` if it does not exist."""
    from nws.client import weather_file

    path = store or weather_file()
    if not path.exists():
        raise StoreError(f"{path}: it does not exist yet; run `nws measure` first")
    return path


def chosen(names: Iterable[str], known: Iterable[Series]) -> list[Series]:
    """Return the series of these names, all known ones without names; raises `UnknownName`."""
    order = sorted(known, key=str)
    named = [Series.parse(name) for name in names]
    unknown = [str(s) for s in named if s not in order]
    if unknown:
        raise UnknownName(
            f"no measurements of {', '.join(unknown)}; known are {', '.join(map(str, order)) or 'none'}"
        )
    return named or order


def echo_json(document: object) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def finite_document(source: object, *names: str) -> dict[str, Any]:
    """Return the values of these attributes by name, None for NaN and infinities."""
    values = document_of(source, *names)
    return {name: finite(value) if isinstance(value, float) else value for name, value in values.items()}


def series_document(series: Series, **values: object) -> dict[str, object]:
    """Return the entry of a series: its name and unit, then these values."""
    return {"series": str(series), "unit": series.resource.unit, **values}


def finite(value: float) -> float | None:
    """Return the value, None for NaN and infinities, which JSON does not have."""
    return value if math.isfinite(value) else None
