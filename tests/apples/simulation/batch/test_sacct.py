"""A site's own history, as sacct prints it."""

import pytest

from apples.errors import ConfigError
from apples.simulation.batch.reading import read_trace
from apples.simulation.batch.sacct import COLUMNS
from tests.transcripts import text_of

HEADER = "|".join(COLUMNS)


def row(number="100", user="ann", account="sun", submit="08:00:00", start="08:10:00", end="09:10:00", **more):
    values = {"limit": "04:00:00", "cpus": "16", "state": "COMPLETED", **more}
    times = [f"2026-05-01T{text}" if ":" in text else text for text in (submit, start, end)]
    return "|".join([number, user, account, *times, values["limit"], values["cpus"], values["state"]])


def test_jobs_with_names(file):
    trace = read_trace(file("history.txt", HEADER, row(), row("101", user="bob", limit="1-00:00:00")))
    assert trace.id.tolist() == [100, 101]
    assert trace.run.tolist() == [3600, 3600]
    assert trace.wait.tolist() == [600, 600]
    assert trace.request.tolist() == [4 * 3600, 86400]
    assert (trace.names.users, trace.names.projects) == ({"ann": 0, "bob": 1}, {"sun": 0})
    assert trace.user.tolist() == [0, 1]


def test_what_is_left_out_is_counted(file):
    lines = [
        row(),
        row("100.batch"),
        row("101+0.0"),
        row("x"),
        row("102", start="Unknown"),
        row("103", end="Unknown"),
        row("104", submit="None"),
        row("105", cpus="0"),
        row("106", start="07:00:00"),
        "107|ann",
        row("108", limit="UNLIMITED"),
        row("109_4", submit="07:00:00"),
    ]
    trace = read_trace(file("history.txt", HEADER, *lines, ""))
    assert trace.id.tolist() == [109, 100, 108]
    assert trace.request.tolist() == [14400, 14400, 3600]
    assert dict(trace.intake.dropped) == {
        "a step of a job": 2,
        "no number of a job": 1,
        "did not run to an end": 2,
        "no time of submission": 1,
        "no number of processors": 1,
        "started before it was submitted": 1,
        "fewer columns than the header": 1,
    }
    assert trace.intake.mended["no time limit, taken as the run time"] == 1


def test_history_that_will_not_do(file):
    with pytest.raises(ConfigError, match="no column Account, Timelimit; make it with sacct --allusers"):
        read_trace(file("history.txt", HEADER.replace("Account|", "").replace("Timelimit|", "")))
    with pytest.raises(ConfigError, match=r"no job that ran among 1 line \(a step of a job: 1\)"):
        read_trace(file("history.txt", HEADER, row("1.0")))
    with pytest.raises(ConfigError, match=r"no job that ran among 0 lines$"):
        read_trace(file("history.txt", HEADER))


SITE = text_of("apples/simulation/batch/sacct_site.txt")
"""What a site prints: steps, an array half of which waits, a heterogeneous job, cancellations, and no limits."""


def test_sites_own_output(file):
    trace = read_trace(file("history.txt", *SITE.splitlines()))
    assert trace.id.tolist() == [4211, 4212, 4212, 4215, 4215, 4218, 4220]
    assert trace.procs.tolist() == [16, 4, 4, 8, 32, 2, 2]
    assert trace.request.tolist() == [14400, 1800, 1800, 3600, 3600, 60, 1]
    assert trace.run.tolist() == [3600, 1800, 60, 1800, 1800, 60, 0]
    assert dict(trace.intake.dropped) == {"a step of a job": 4, "did not run to an end": 3}
    assert dict(trace.intake.mended) == {
        "a component of a heterogeneous job, taken as a job of its own": 2,
        "no time limit, taken as the run time": 2,
    }
