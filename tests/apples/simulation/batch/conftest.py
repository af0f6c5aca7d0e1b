"""Small traces out of plain rows, and the reference logs where they are."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from apples.simulation.batch.trace import Trace

DATA = Path(os.environ.get("APPLES_DATA") or Path(__file__).parents[4] / ".." / "shared" / "data") / "swf"


@pytest.fixture
def reference():
    """Path of a reference log; skips where it is not."""

    def find(name):
        path = DATA / name
        if not path.is_file():
            pytest.skip(
                f"reference log {name} not there; set APPLES_DATA to the directory of its folder `swf`"
            )
        return path

    return find


@pytest.fixture
def trace():
    """Makes a trace of rows (submit, run, procs, request), each by a user of its own unless `users` says otherwise."""

    def make(*rows, processors=8, users=None, waits=None):
        submit, run, procs, request = np.array(rows, float).T
        jobs = len(rows)
        return Trace(
            name="small",
            id=np.arange(1, jobs + 1),
            submit=submit,
            run=run,
            procs=procs.astype(np.int64),
            request=request,
            user=np.array(users if users is not None else range(jobs)),
            project=np.zeros(jobs, np.int64),
            wait=np.array(waits if waits is not None else [np.nan] * jobs, float),
            processors=processors,
        )

    return make


@pytest.fixture
def swf_line():
    """A line of Standard Workload Format; what is not named is unknown."""

    def make(number, **fields):
        names = ["wait", "run", "allocated", "cpu", "memory", "asked", "request", "memory_asked", "status"]
        names += ["user", "group", "program", "queue", "partition", "before", "think"]
        values = {"submit": 0, "run": 60, "allocated": 4, "request": 100, "status": 1, **fields}
        words = [number, values["submit"], *(values.get(name, -1) for name in names)]
        return " ".join(map(str, words))

    return make


@pytest.fixture
def file(tmp_path):
    """Writes lines into a file of that name, gzipped if it ends so."""

    def write(name, *lines):
        path = tmp_path / name
        text = "".join(f"{line}\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write
