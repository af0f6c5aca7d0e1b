"""The threat model names a test for every promise, and each of them exists."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def _functions(path):
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_promise_names_a_test_that_exists(file, test):
    assert test in _functions(TESTS / file)


def test_promises_all_have_a_test():
    promises = PAGE.partition("## Promises")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "|---" not in line][1:]
    assert len(rows) >= 15
    assert [row for row in rows if not re.search(r"`[\w/]+\.py::\w+` \|$", row)] == []
