"""Public names of a package, imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], list[str]]:
    """Return a package's `__getattr__` and `__all__`.

    Args:
        package: name of the package.
        modules: by module, the public names that it defines, with blanks between them.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Imported here: every rank imports its package, and most never use a lazy name.
        from importlib import import_module

        value = getattr(import_module(module_of[name]), name)
        # The next use finds the value without this function.
        setattr(sys.modules[package], name, value)
        return value

    return get, sorted(module_of)
