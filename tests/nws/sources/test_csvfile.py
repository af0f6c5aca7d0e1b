"""Files of measurements: every wrong line told at once, by file and line, and nothing taken."""

import gzip
import io
import sys

import pytest
from hypothesis import given, strategies as st

from nws.base.errors import ConfigError
from nws.sources.csvfile import read_columns

NOW = 1.8e9


@pytest.fixture
def file(tmp_path):
    """Writes a file and gives its name."""

    def write(content):
        path = tmp_path / "m.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def problems(name, now=NOW):
    with pytest.raises(ConfigError) as caught:
        read_columns(name, now=now)
    return [problem.removeprefix(name) for problem in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "series,t,value\ncpu.new@a,1,0.5\nx.hops@a>b,2,3\n",
        "series, time, value\r\n cpu.new@a , 1 , 0.5\r\n\r\nx.hops@a>b,2,3",
        "\ufeffSERIES,T,VALUE\ncpu.new@a,1e0,5e-1\nx.hops@a>b,2.0,+3",
        "cpu.new@a,1,0.5\nx.hops@a>b,2,3\n",
        '"host","when","share"\n"cpu.new@a", 1, 0.5\n"x.hops@a>b", 2, "3"\n',
    ],
)
def test_what_counts_as_the_same_file(file, text):
    found = read_columns(file(text), now=NOW)
    assert found.names == ["cpu.new@a", "x.hops@a>b"]
    assert (list(found.index), list(found.t), list(found.value)) == ([0, 1], [1.0, 2.0], [0.5, 3.0])


def test_csvfile_gzip_parts_are_joined(file):
    part = gzip.compress(b"cpu.new@a,1,0.5\n" * 3)
    assert len(read_columns(file(part + part), now=NOW)) == 6


def test_csvfile_for_scores_takes_any_names_and_times(file):
    text = 'pair,k,rtt_s\r\na-b,6,0.25\r\n"c,d",-1,1\r\n\r\na-b,0,0.5\r\na-b,6,1e-3\r\n'
    values = read_columns(file(text)).values_by_series()
    assert {name: column.tolist() for name, column in values.items()} == {
        "a-b": [0.5, 0.25, 1e-3],
        "c,d": [1.0],
    }
    assert problems(file(",4,5\na,nan,1\na,\xff,1\n".encode("latin-1")), now=None) == [
        ":1: '' is not a series name: expected RESOURCE@HOST or RESOURCE@FROM>TO",
        ":2: t 'nan' is no time; expected a finite number",
        ":3: 'a,\ufffd,1' is not text",
    ]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"cpu.new@a,1,0.5\nbad\n")))
    assert problems("-") == ["standard input:2: 'bad' has 1 columns; expected series,t,value"]


def test_wrong_line_is_told(file):
    lines = [
        "series,t,value",
        "cpu.new@a,1,0.5",
        "cpu.new@a,1",
        "cpu.new@a,1,0.5,9",
        "cpu.new@a,yesterday,0.5",
        "cpu.new@a,-1,0.5",
        "cpu.new@a,1800000000000,0.5",
        "cpu.new@a,1,nan",
        "cpu.new@a,1,1e121",
        "cpu.new@a,1,1_000",
        "cpu.new,1,1",
        "power@a,inf,much",
        "power@a,1,1",
    ]
    assert problems(file("\n".join(lines))) == [
        ":3: 'cpu.new@a,1' has 2 columns; expected series,t,value",
        ":4: 'cpu.new@a,1,0.5,9' has 4 columns; expected series,t,value",
        ":5: t 'yesterday' is no time; expected seconds since the epoch, such as 1800000000",
        ":6: t '-1' is no time; expected seconds since the epoch, such as 1800000000",
        ":7: t '1800000000000' is later than tomorrow; expected seconds since the epoch, such as 1800000000",
        ":8: value 'nan': expected a finite number up to ±1e+120",
        ":9: value '1e121': expected a finite number up to ±1e+120",
        ":10: value '1_000': expected a finite number up to ±1e+120",
        ":11: 'cpu.new' is not a series name: expected RESOURCE@HOST or RESOURCE@FROM>TO",
        ":12: 'power@a': unknown resource 'power'; legal are cpu.new, cpu.running, cpu.capacity, cpu.limit, "
        "memory.free, network.latency, network.bandwidth, network.loss, and x.… for series from elsewhere; "
        "t 'inf' is later than tomorrow; "
        "expected seconds since the epoch, such as 1800000000; value 'much': expected a finite number up to ±1e+120",
        ":13: 'power@a' is not a series, as told above",
    ]


def test_very_many_wrong_lines_are_counted(file):
    found = problems(file("bad\n" * 1500))
    assert (len(found), found[-1]) == (1001, ": and 500 further lines")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"series,t,value\n"])
def test_file_of_nothing(file, content):
    assert problems(file(content)) == [": no measurements; expected lines series,t,value"]


def test_file_that_is_not_there(tmp_path):
    (told,) = problems(str(tmp_path / "none.csv"))
    assert told.startswith(": cannot be read: No such file or directory; expected CSV lines")


def test_a_directory(tmp_path):
    assert problems(str(tmp_path))[0].startswith(": cannot be read: Is a directory")


def test_archive_that_breaks_off(file):
    whole = gzip.compress(b"".join(b"cpu.new@a,%d,0.5\n" % k for k in range(5000)))
    assert "cannot be read" in problems(file(whole[: len(whole) // 2]))[-1]


def test_program_instead_of_a_file(file):
    found = problems(file(bytes(range(256)) * 400))
    assert all(len(line) < 300 for line in found)


def test_line_without_an_end_takes_no_memory(file):
    (told,) = problems(file(b"x" * 10_000_000))
    assert told.endswith("has 1 columns; expected series,t,value")
    assert len(told) < 200


@given(st.binary(max_size=300))
def test_whatever_is_in_a_file_is_read_or_told(content):
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(content))
    try:
        columns = read_columns("-", now=NOW)
    except ConfigError as error:
        found = len(error.problems)
    else:
        found = len(columns)
    finally:
        sys.stdin = stdin
    assert found > 0
