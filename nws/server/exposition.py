"""Prometheus' text format, version 0.0.4: families with their help and type, labels escaped, no NaN.

The content is decided in `nws.server.metrics`.
Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_BLOCK_LINES = 1024


def labels(pairs: Mapping[str, str]) -> str:
    """Return ``{name="value",…}`` with escaped values; empty without labels."""
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items()) + "}"


class Exposition:
    """A page of metrics, built family by family; columns become text when the page is read."""

    def __init__(self) -> None:
        self._lines: list[Iterable[str]] = []

    def family(self, name: str, kind: str, text: str) -> None:
        """Start a family. kind: counter, gauge or histogram."""
        self._lines.append((f"# HELP {name} {text.translate(_HELP_ESCAPES)}", f"# TYPE {name} {kind}"))

    def sample(self, name: str, value: float, pairs: Mapping[str, str] | None = None) -> None:
        """Add one sample; NaN is left out."""
        if not math.isnan(value):
            self._lines.append((f"{name}{labels(pairs or {})} {number(value)}",))

    def column(self, name: str, made: Iterable[str], values: Iterable[float]) -> None:
        """Add samples with labels that are text already; NaN is left out."""
        self._lines.append(
            f"{name}{text} {value!r}" for text, value in zip(made, values, strict=True) if value == value
        )

    def one(self, name: str, kind: str, text: str, value: float) -> None:
        """Add a family of one sample without labels."""
        self.family(name, kind, text)
        self.sample(name, value)

    def blocks(self) -> Iterator[bytes]:
        """Yield the page, once; a page of many series would take a hundred bytes for each of its samples."""
        lines = chain.from_iterable(self._lines)
        while block := "".join(f"{line}\n" for line in islice(lines, _BLOCK_LINES)):
            yield block.encode()


def number(value: float) -> str:
    """Return a number in the format's notation."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
