"""Holds modules to 400 lines and functions to 60 (docstring not counted); prints offenders and exits 1.

    python scripts/size_cap.py [DIRECTORY ...]

Without arguments: the packages of this repository. A module near the cap wants to be two.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
PACKAGES = ("apples", "nws", "stencil_app", "experiments", "deploy", "mpi_wait")


def offenders(path: Path) -> Iterator[str]:
    """One line for the module if it is too long, and one for each function that is."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield f"{path}:1: module of {lines} lines; the cap is {MODULE_LINES}"
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = function_lines(node)
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines; the cap is {FUNCTION_LINES}"


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from ``def`` to the end, less those of the docstring."""
    last = node.lineno if node.end_lineno is None else node.end_lineno
    first = node.body[0]
    docstring = 0
    if ast.get_docstring(node, clean=False) is not None and first.end_lineno is not None:
        docstring = first.end_lineno - first.lineno + 1
    return last - node.lineno + 1 - docstring


def main(arguments: list[str]) -> int:
    """Check the directories; returns the exit code."""
    root = Path(__file__).resolve().parent.parent
    directories = [Path(a) for a in arguments] or [root / package for package in PACKAGES]
    absent = [d for d in directories if not d.is_dir()]
    if absent:
        print(f"no such directory: {', '.join(map(str, absent))}; give packages to check", file=sys.stderr)
        return 2
    found = [line for d in directories for path in sorted(d.rglob("*.py")) for line in offenders(path)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
