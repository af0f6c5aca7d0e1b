"""Job logs: what is read, what is mended, what is left out, and that all of it is counted."""

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.simulation.batch.reading import read_trace
from tests.transcripts import recorded


def test_log_and_its_header(file, swf_line):
    path = file(
        "site.swf.gz",
        "; Computer: a test",
        ";  MaxProcs: 64",
        "",
        swf_line(7, submit=10, wait=5, run=60, allocated=4, request=100, user=3, group=2),
        swf_line(8, submit=20, run=1.5, allocated=-1, asked=8),
    )
    trace = read_trace(path)
    assert (trace.name, trace.processors, len(trace)) == ("site.swf.gz", 64, 2)
    assert trace.id.tolist() == [7, 8]
    assert trace.procs.tolist() == [4, 8]
    assert (trace.user.tolist(), trace.project.tolist()) == ([3, -1], [2, -1])
    assert trace.log_end[0] == 75
    assert np.isnan(trace.wait[1])
    assert trace.intake.report() == []


def test_everything_odd_is_counted(file, swf_line):
    path = file(
        "odd.swf",
        swf_line(1),
        "1 2 3",
        swf_line(2).replace("60", "sixty"),
        swf_line(3).replace("60", "nan"),
        swf_line(4, run=-1),
        swf_line(5, allocated=0, asked=0),
        swf_line(6, submit=-5),
        swf_line(7, run=0, status=5),
        swf_line(8, run=0),
        swf_line(9, request=-1),
        swf_line(10, submit=50),
        swf_line(11, submit=20),
    )
    trace = read_trace(path)
    assert trace.id.tolist() == [1, 8, 9, 11, 10]
    assert trace.request.tolist() == [100, 100, 60, 100, 100]
    assert trace.intake.lines == 12
    assert trace.intake.report() == [
        "left out, not 18 numbers: 3",
        "left out, no time of submission: 1",
        "left out, cancelled before they ran: 1",
        "left out, no run time: 1",
        "left out, no number of processors: 1",
        "mended, no requested time, taken as the run time: 1",
        "mended, submitted before the line above, sorted: 1",
    ]


@recorded("apples/simulation/swf_problems.txt", "lines")
def test_file_without_jobs(file, answered, lines):
    with pytest.raises(ConfigError) as caught:
        read_trace(file("none.swf", *lines))
    answered(str(caught.value).split("none.swf")[-1])


def test_file_that_cannot_be_read(tmp_path, file, swf_line):
    with pytest.raises(ConfigError, match=r"none\.swf: cannot be read \(No such file"):
        read_trace(tmp_path / "none.swf")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_trace(tmp_path)
    path = file("half.swf.gz", *[swf_line(number) for number in range(200)])
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trace(path)
    path.write_bytes(b"plain text")
    with pytest.raises(ConfigError, match=r"half\.swf\.gz: 1 line, none of them of 18 numbers"):
        read_trace(path)
