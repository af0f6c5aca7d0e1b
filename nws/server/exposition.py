"""Prometheus' text format, version 0.0.4: families with their help and type, labels escaped, no NaN.

Only writes; what is told is decided in `nws.server.metrics`.
Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def labels(pairs: Mapping[str, str]) -> str:
    """``{name="value",…}`` with values escaped; nothing without labels."""
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items()) + "}"


class Exposition:
    """A page of metrics, family after family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        """Begin a family. kind : counter, gauge or histogram."""
        self._lines += (f"# HELP {name} {text.translate(_HELP_ESCAPES)}", f"# TYPE {name} {kind}")

    def sample(self, name: str, value: float, pairs: Mapping[str, str] | None = None) -> None:
        """One sample; a value that is not a number is left out."""
        if not math.isnan(value):
            self._lines.append(f"{name}{labels(pairs or {})} {number(value)}")

    def column(self, name: str, made: Iterable[str], values: Iterable[float]) -> None:
        """Many samples whose labels are text already; those that are not a number are left out."""
        self._lines += [
            f"{name}{text} {value!r}" for text, value in zip(made, values, strict=True) if value == value
        ]

    def one(self, name: str, kind: str, text: str, value: float) -> None:
        """A family of one sample without labels."""
        self.family(name, kind, text)
        self.sample(name, value)

    def page(self) -> str:
        """All of it."""
        return "\n".join(self._lines) + "\n"


def number(value: float) -> str:
    """A number as the format has it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
