"""Public names of a package, imported when they are first used, so that importing the package is cheap.

Its stub, `__init__.pyi`, lists them once, for type checkers and for `lazy_names`: `from MODULE import NAME as NAME`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which knows `__all__` and `__version__` too, and `__dir__`.

    Args:
        package: name of the package.
        file: its `__init__.py`, with the stub beside it.
    """
    module_of: dict[str, str] = {}

    def names() -> list[str]:
        if not module_of:
            # Read and imported here: every rank imports its package, and most never use a lazy name.
            from itertools import pairwise

            module = ""
            with open(f"{file.removesuffix('.py')}.pyi", encoding="ascii") as stub:
                for words in (line.replace(",", " ").split() for line in stub):
                    if words[:1] == ["from"]:
                        module = words[1]
                    module_of.update({name: module for name, word in pairwise(words) if word == "as"})
        return sorted(module_of)

    def get(name: str) -> object:
        if name == "__all__":
            return names()
        if name == "__version__":
            from importlib.metadata import version

            return version("apples-grid")
        if name not in names():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(module_of[name]), name)
        # The next use finds the value without this function.
        setattr(sys.modules[package], name, value)
        return value

    return get, names
