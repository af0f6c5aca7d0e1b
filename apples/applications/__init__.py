"""The applications the agent can run, by name; each a module with a `TEMPLATE`.

To add one: a module here that gives model inputs, constraints and deployment (`apples.model.template.Template`),
and its name in the table below. Nothing else in the agent changes. Decides nothing.
"""

from __future__ import annotations

from importlib import import_module

from apples.errors import ConfigError
from apples.model.template import Template

_MODULES = {name: f"apples.applications.{name}" for name in ("mhd3d", "heat", "jacobi2d")}

#: What `apples-run SIZE` runs.
DEFAULT = "mhd3d"


def names() -> tuple[str, ...]:
    """All applications."""
    return tuple(_MODULES)


def get(name: str) -> Template:
    """The application of that name; raises `ConfigError` listing the legal ones."""
    if name not in _MODULES:
        raise ConfigError(f"unknown application {name!r}; legal are {', '.join(_MODULES)}")
    template: Template = import_module(_MODULES[name]).TEMPLATE
    return template
