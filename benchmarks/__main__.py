"""Run a benchmark from the project's directory.

    python -m benchmarks                           the names
    python -m benchmarks NAME [PART] [options]     run one; -h describes it

A benchmark is a module here with a function `main`, or with several in `PARTS`. Arguments and options are the
parameters of the function: keyword-only ones are options, the others arguments. Lines `name: text` of its docstring
describe them.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import signal
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def add_parameters(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    """Add the parameters of a function as arguments and options."""
    texts = dict(re.findall(r"^ *(\w+): +(.+)$", function.__doc__ or "", re.MULTILINE))
    parser.set_defaults(function=function)
    for name, one in inspect.signature(function, eval_str=True).parameters.items():
        is_option = one.kind is one.KEYWORD_ONLY
        default = None if one.default is one.empty else one.default
        words = describe_type(one.annotation)
        words["help"] = texts.get(name, "") + (
            f" (default {default})" if default not in (None, False, ()) else ""
        )
        if one.kind is one.VAR_POSITIONAL:
            words["nargs"] = "*"
        if is_option:
            parser.add_argument(
                f"--{name.replace('_', '-')}", default=default, required=one.default is one.empty, **words
            )
        elif one.default is one.empty:
            parser.add_argument(name, **words)
        else:
            parser.add_argument(name, default=default, **{"nargs": "?", **words})


def describe_type(kind: Any) -> dict[str, Any]:
    """Return what `argparse` needs to know of a type: flags, one value or several, and legal values."""
    if kind is bool:
        return {"action": "store_true"}
    if typing.get_origin(kind) is types.UnionType:
        return describe_type(next(one for one in typing.get_args(kind) if one is not type(None)))
    if typing.get_origin(kind) is tuple:
        return {**describe_type(typing.get_args(kind)[0]), "nargs": "+"}
    if typing.get_origin(kind) is typing.Literal:
        return {"choices": typing.get_args(kind)}
    return {"type": kind}


def call(arguments: argparse.Namespace) -> Any:
    """Call the chosen function."""
    given = vars(arguments)
    function = given.pop("function")
    positional: list[Any] = []
    for name, one in inspect.signature(function).parameters.items():
        if one.kind is one.VAR_POSITIONAL:
            positional += given.pop(name)
        elif one.kind is one.POSITIONAL_OR_KEYWORD:
            positional.append(given.pop(name))
    return function(*positional, **given)


def main() -> None:
    """Run the named benchmark; a true result or a number is the exit code of a failure."""
    # SIGTERM must unwind, so that daemons and hosts end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if len(sys.argv) < 2 or sys.argv[1] not in names():
        sys.exit((__doc__ or "") + "\nNames: " + " ".join(names()))
    name = sys.argv.pop(1)
    module = importlib.import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if hasattr(module, "PARTS"):
        parts = parser.add_subparsers(required=True, metavar="PART")
        for part in module.PARTS:
            title = (part.__doc__ or "").strip().splitlines()[0]
            add_parameters(parts.add_parser(part.__name__.replace("_", "-"), help=title), part)
    elif inspect.signature(module.main).parameters:
        add_parameters(parser, module.main)
    else:
        sys.exit(module.main())
    sys.exit(call(parser.parse_args()))


if __name__ == "__main__":
    main()
