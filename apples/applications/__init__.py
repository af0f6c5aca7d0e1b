"""The applications of this package, by name; each an application file beside this one, listed in `index.txt`.

They are read as users' files are (`apples.applications.described`). To add one, write a file and its line in the index.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apples.errors import ConfigError

if TYPE_CHECKING:
    from apples.model.template import Application

_HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Return the names of all applications, that of `apples-run SIZE` first."""
    return tuple((_HERE / "index.txt").read_text(encoding="utf-8").split())


def get(name: str) -> Application:
    """Return the application of that name; raises `ConfigError` listing the legal ones."""
    from apples.applications.described import read_program

    if name not in names():
        raise ConfigError(f"unknown application {name!r}; legal are {', '.join(names())}")
    return read_program(_HERE / f"{name}.yaml")
