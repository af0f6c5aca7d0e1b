"""The applications the agent can run, by name; each a module with a `TEMPLATE`.

To add one: write a module here that gives model inputs, constraints and deployment (`apples.model.template.Template`),
and add its name to the table below. No other part of the agent changes.
"""

from importlib import import_module

from apples.errors import ConfigError
from apples.model.template import Template

_MODULES = {name: f"apples.applications.{name}" for name in ("mhd3d", "heat", "jacobi2d")}

#: The application of `apples-run SIZE`.
DEFAULT = "mhd3d"


def names() -> tuple[str, ...]:
    """Return the names of all applications."""
    return tuple(_MODULES)


def get(name: str) -> Template:
    """Return the application of that name; raises `ConfigError` listing the legal ones."""
    if name not in _MODULES:
        raise ConfigError(f"unknown application {name!r}; legal are {', '.join(_MODULES)}")
    template: Template = import_module(_MODULES[name]).TEMPLATE
    return template
