"""Parameters of application files: variables with default values that `--set` changes, and arithmetic of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from nws.base.quantities import AMOUNT, Parsed
from nws.base.reader import spelling_hint

Scalar = str | int | float | bool


class WrittenInt(int):
    """A whole number, or true or false, that templates show as it was written: `010` of a user, `true` of YAML."""

    written = ""

    def __str__(self) -> str:
        return self.written


class WrittenFloat(float):
    """A number that templates show as it was written: `1.10` and `1e-6`."""

    written = ""

    def __str__(self) -> str:
        return self.written


def _as_written(value: Any, text: str | None) -> Any:
    """Return a value that templates show as `text`, with which they still can compute."""
    if text is None or not isinstance(value, int | float):
        return value
    number = (WrittenInt if isinstance(value, int) else WrittenFloat)(value)
    number.written = text
    return number


_KINDS = {bool: "true or false", int: "a whole number", float: "a number"}

#: What a formula may consist of.
_ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.UAdd, ast.USub),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A variable of templates that `--set` changes.

    default : None for a text without a value until the user gives one
    at_least, at_most, above : bounds of a number.  one_of : the legal values
    path : made absolute, because ranks may start elsewhere
    priced : the cost of a row may depend on it.  written : the default's text in its file
    """

    default: Scalar | None = None
    help: str = ""
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    one_of: tuple[Scalar, ...] = ()
    path: bool = False
    priced: bool = True
    written: str | None = None

    @property
    def legal(self) -> str:
        """Return the legal values in words."""
        if self.one_of:
            return f"one of {', '.join(map(str, self.one_of))}"
        bounds = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most))
        limits = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
        return f"{_KINDS.get(type(self.default), 'a text')} {' and '.join(limits)}".strip()

    def value(self, text: str | None) -> Any:
        """Return `text` as a value of the type of the default, and the default for None; raise `ValueError`."""
        if text is None:
            return _as_written(self.default, self.written)
        if self.path:
            return str(Path(text).absolute())
        value = _typed(self.default, text)
        if (self.one_of and value not in self.one_of) or not self._within(value):
            raise ValueError(text)
        return _as_written(value, text)

    def _within(self, value: object) -> bool:
        return not isinstance(value, int | float) or (
            (isinstance(value, int) or math.isfinite(value))
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
        )


def _typed(default: object, text: str) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(default, int):
        return int(text)
    return float(text) if isinstance(default, float) else text


@dataclass(frozen=True, slots=True)
class _ReadParameter(Parsed):
    """A value, or a mapping of the fields of `Parameter`. count : the value is a whole number, 1 or more"""

    count: bool = False

    def parse(self, value: object) -> Parameter:
        if not isinstance(value, dict):
            value = {"default": value, **({"at_least": 1} if self.count else {})}
        types = {each.name: each.type for each in fields(Parameter) if each.name != "written"}
        if unknown := [key for key in value if key not in types]:
            raise ValueError(f"unknown key {unknown[0]}; legal keys are {', '.join(types)}")
        default, one_of = value.get("default"), value.get("one_of", [])
        if default is not None and not isinstance(default, Scalar):
            raise ValueError(
                "should be a text, a number, true or false, or keys such as default and at_least"
            )
        parameter = Parameter(**{**value, "one_of": tuple(one_of if isinstance(one_of, list) else [one_of])})
        is_count = isinstance(default, int) and not isinstance(default, bool)
        legal = default is None or not parameter.one_of or default in parameter.one_of
        if (self.count and not is_count) or not legal or not parameter._within(default):
            expected = "a whole number, 1 or more" if self.count else parameter.legal
            raise ValueError(
                f"the default should be {expected}; got {default!r}{spelling_hint('a whole number', default)}"
            )
        return parameter


ParameterEntry = Annotated[Parameter, _ReadParameter()]
CountEntry = Annotated[Parameter, _ReadParameter(count=True)]


class Formula:
    """Arithmetic of parameters: + - * / // and brackets. text : as written"""

    def __init__(self, text: str) -> None:
        """Raise `ValueError` for a text that is no arithmetic."""
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            raise ValueError(f"{text!r} is neither a quantity nor arithmetic") from None
        for node in ast.walk(self._tree):
            number = not isinstance(node, ast.Constant) or type(node.value) in (int, float)
            if not isinstance(node, _ARITHMETIC) or not number:
                raise ValueError(f"{text!r}: legal are numbers, parameters, + - * / // and brackets")

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the parameters in it."""
        return frozenset(node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name))

    def value(self, values: Mapping[str, Any]) -> float:
        """Return its value; raise `ArithmeticError` or `TypeError` if it has none."""
        # The nodes are those of `_ARITHMETIC`: no calls, attributes or subscripts.
        return float(eval(compile(self._tree, "<formula>", "eval"), {"__builtins__": {}}, dict(values)))


@dataclass(frozen=True, slots=True)
class _ReadFormula(Parsed):
    """A quantity of bytes, a number, or arithmetic."""

    def parse(self, value: object) -> Formula:
        try:
            return Formula(repr(AMOUNT.parse(value)))
        except ValueError:
            if isinstance(value, str) and any(letter in value for letter in "+-*/("):
                return Formula(value)
            raise


FormulaEntry = Annotated[Formula, _ReadFormula()]
