"""Rows that move between real hosts which share no run directory: reports and orders go through rank 0's host agent."""

import json
import re
import subprocess
import sys
from pathlib import Path

ADAPT = Path(__file__).with_name("adapt_in_lab.py")


def test_rows_move_between_hosts_and_the_answer_is_the_same(lab):
    done = lab.run("a1", sys.executable, str(ADAPT), "a2,a3")
    *said, last = done.stdout.splitlines()
    told = json.loads(last)
    assert told["ended"] == "adapted", told["message"]
    assert told["rows"] == [[12, 12], [20, 4], [6, 18]]
    assert told["refused"] == ["20,5: 25 rows together, the mesh has 24"]
    done_there = re.fullmatch(r"heat .*: iteration (\d+), residual .*, checksum (\w+)", said[0])
    words = ("heat", "--size", "24", "--nx", "48", "--ny", "48", "--iterations", done_there[1])
    unmoved = subprocess.run(
        [sys.executable, "-m", "stencil_app", *words], capture_output=True, text=True, check=True
    )
    assert unmoved.stdout.split()[-1] == done_there[2]
