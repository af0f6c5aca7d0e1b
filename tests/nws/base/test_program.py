"""External programs: output, or one error for every way to fail."""

import sys

import pytest

from nws.base.program import ProgramFailed, output_of


def python(code):
    return [sys.executable, "-I", "-S", "-c", code]


def test_output_of_returns_standard_output():
    assert output_of(python("import os; print(os.environ)"), environment={"A": "1"}).startswith(
        "environ({'A': '1'"
    )


def test_output_of_gives_an_empty_standard_input():
    assert output_of(python("import sys; print(repr(sys.stdin.read()))")) == "''\n"


@pytest.mark.parametrize(
    ("command", "limit_s", "expected"),
    [
        (python("import sys; sys.exit('one\\ntwo\\n')"), 60, ("exit code 1", 1, "two")),
        (python("import sys; sys.exit(3)"), 60, ("exit code 3", 3, "no reason given")),
        (
            ["/no/such"],
            60,
            ("[Errno 2] No such file or directory: '/no/such'", None, "no reason given"),
        ),
        (["sh", "-c", "echo late >&2; sleep 60"], 0.3, ("no end after 0.3 s", None, "late")),
    ],
)
def test_output_of_raises_one_error_for_every_failure(command, limit_s, expected):
    with pytest.raises(ProgramFailed) as caught:
        output_of(command, limit_s=limit_s)
    failed = caught.value
    assert (failed.reason, failed.code, failed.last_line) == expected
