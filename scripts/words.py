"""Measure the words of docstrings against plain English and the field's own terms; exit 1 where a bar is missed.

    python scripts/words.py [--check] [PATH ...]

Without paths: the three packages of this repository. Counts are per 10,000 words of docstrings of modules, classes and
functions. With `--check` a missed bar is an error, so that CI keeps the prose from sliding back.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("apples", "nws", "stencil_app")

#: Name, words, bar per 10,000 words, and whether the bar is a ceiling.
CLASSES = (
    ("told/said", "told tell tells telling said say says saying", 5, True),
    ("nobody/somebody", "somebody nobody anybody someone anyone whoever people", 2, True),
    ("stands/comes/gone", "stand stands comes gone", 5, True),
    ("what/who", "what who whose whom", 15, True),
    (
        "value/returns/argument",
        "value values return returns returned returning argument arguments args parameter parameters object objects",
        150,
        False,
    ),
)


def words(path: Path) -> Iterator[str]:
    """Return the words of all docstrings in one module, in lower case."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from re.findall(r"[a-z']+", (ast.get_docstring(node) or "").lower())


def main(arguments: list[str]) -> int:
    """Print one line per class of words; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is missed")
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parent.parent
    paths = options.paths or [root / package for package in PACKAGES]
    files = [f for p in paths for f in ([p] if p.is_file() else sorted(p.rglob("*.py")))]
    count = Counter(word for file in files for word in words(file))
    total = sum(count.values())
    print(f"{total} words in {len(files)} files")
    missed = 0
    for name, members, bar, ceiling in CLASSES:
        rate = 1e4 * sum(count[word] for word in members.split()) / max(total, 1)
        holds = rate <= bar if ceiling else rate >= bar
        missed += not holds
        limit = f"{'at most' if ceiling else 'at least'} {bar}"
        print(f"{name:24} {rate:6.1f} per 10,000  {limit}{'' if holds else '  MISSED'}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
