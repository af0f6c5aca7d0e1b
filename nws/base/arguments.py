"""Arguments of the Python interface, checked by the annotations of its functions.

A value of another type would otherwise fail somewhere inside, with an error that names neither argument nor remedy.
Elements of lists and mappings are the function's own matter.
"""

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from nws.base.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


def checked_arguments(
    error: Callable[[list[str]], Exception] = lambda problems: UsageError("\n".join(problems)),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that raises `error`, made of all problems, for arguments that a function does not take."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as wrong:
                raise error(
                    [f"{function.__name__}: {wrong}; legal are {', '.join(signature.parameters)}"]
                ) from None
            problems = type_problems(bound.arguments, get_type_hints(function))
            if problems:
                raise error(problems)
            return function(*args, **kwargs)

        return checked

    return decorate


def type_problems(values: Mapping[str, object], hints: Mapping[str, Any]) -> list[str]:
    """Return a problem for each value that is not of its type. Names without a type are not checked."""
    return [
        f"{name}: expected {_described(hints[name])}; got {value!r}"
        for name, value in values.items()
        if name in hints and not _fits(value, hints[name])
    ]


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is None or hint is type(None):
        return value is None
    # numpy's numbers are of the abstract types
    kind = {int: Integral, float: Real}.get(hint, origin or hint)
    if hint is Any or not isinstance(kind, type):
        return True
    if isinstance(value, bool) and kind is not bool:
        return kind is object
    # a text is a sequence of texts, but not the list of words that is meant
    return isinstance(value, kind) and not (
        isinstance(value, str) and kind is not str and issubclass(kind, Iterable)
    )


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(map(_described, get_args(hint)))
    names = {
        int: "a whole number",
        float: "a number",
        str: "a text",
        bool: "True or False",
        types.NoneType: "None",
    }
    kind = get_origin(hint) or hint
    return names.get(kind, getattr(kind, "__name__", str(kind)))
