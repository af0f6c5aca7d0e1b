"""Settings of the documentation: Sphinx, MyST, furo; pages of commands and of the public API are generated.

sphinx-build -W -b html docs site
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

project = "AppLeS"
author = "the AppLeS developers"
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
html_theme = "furo"
html_title = "AppLeS"
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
# Code blocks of settings and of sessions are not all in a language that Pygments knows.
suppress_warnings = ["misc.highlighting_failure"]

GENERATED = HERE / "generated"


def command_page() -> str:
    """Return the help texts of all commands as one page."""
    import click

    from apples.cli.run import run as apples_run
    from apples.cli.toolbox import toolbox
    from nws.cli import cli as nws

    lines = ["# Help of all commands", ""]
    for name, command in (("apples-run", apples_run), ("apples", toolbox), ("nws", nws)):
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        lines += [f"## `{name}`", "", "```text", command.get_help(context), "```", ""]
        if not isinstance(command, click.Group):
            continue
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None
            inner = click.Context(
                child, info_name=child_name, parent=context, max_content_width=100, terminal_width=100
            )
            lines += [f"### `{name} {child_name}`", "", "```text", child.get_help(inner), "```", ""]
    return "\n".join(lines)


def api_page() -> str:
    """Return the names that `apples` and `nws` export, with signatures and docstrings, as one page."""
    lines = ["# Public API", "", "Names that the packages export; everything else is internal.", ""]
    for package in ("apples", "nws"):
        module = importlib.import_module(package)
        lines += [f"## `{package}`", "", inspect.getdoc(module) or "", ""]
        for name in getattr(module, "__all__", ()):
            lines += documented(f"{package}.{name}", getattr(module, name))
    return "\n".join(lines)


def documented(name: str, value: Any) -> list[str]:
    """Return the lines for one exported name: a class with its public methods, a function or another value."""
    lines = [f"### `{name}`", ""]
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return [*lines, "```python", f"{name} = {value!r}"[:500], "```", ""]
    lines += signature(name, value)
    if inspect.isclass(value):
        for member, function in inspect.getmembers(value, inspect.isroutine):
            if not member.startswith("_") and function.__qualname__.startswith(value.__name__):
                lines += signature(f"{value.__name__}.{member}", function)
    return lines


def signature(name: str, value: Any) -> list[str]:
    """Return the signature and docstring of a class or function, verbatim."""
    try:
        arguments = str(inspect.signature(value))
    except (TypeError, ValueError):
        arguments = "(...)"
    text = inspect.getdoc(value) or ""
    return ["```python", f"{name}{arguments}", "```", "", "```text", text, "```", ""]


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx reads the sources."""
    GENERATED.mkdir(exist_ok=True)
    for name, text in (("commands.md", command_page()), ("api.md", api_page())):
        path = GENERATED / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
