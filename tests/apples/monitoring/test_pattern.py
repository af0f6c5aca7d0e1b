"""Iterations counted from sequences of calls, without MPI."""

import shutil
import subprocess
from itertools import permutations
from pathlib import Path

import pytest

from apples import monitoring
from tests.transcripts import text_of

SHIM = Path(monitoring.__file__).parent / "shim"
READER = text_of("apples/monitoring/pattern_reader.c")

#: These have one place in the table of last calls.
ALIKE = (0x1, 0x1000, 0x2003)
OTHER = 0x7


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """Return the iterations and the period that are found in a sequence of calls."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    directory = tmp_path_factory.mktemp("pattern")
    (directory / "reader.c").write_text(READER)
    command = ["gcc", "-I", SHIM, "-o", directory / "reader", directory / "reader.c", SHIM / "pattern.c"]
    subprocess.run(command, check=True, capture_output=True)

    def count(calls):
        text = " ".join(map(str, calls))
        done = subprocess.run(directory / "reader", input=text, capture_output=True, text=True, check=True)
        return tuple(map(int, done.stdout.split()))

    return count


@pytest.mark.parametrize("calls", list(permutations((*ALIKE, OTHER))))
def test_iterations_are_counted_whatever_the_calls(counted, calls):
    *body, output = calls
    sequence = [OTHER + 1]
    for iteration in range(57):
        sequence += body
        sequence += [output] * (iteration % 10 == 9)
    assert counted(sequence) == (57, 3)
