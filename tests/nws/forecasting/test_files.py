"""Files of measurements: what is read, and every problem told at once."""

from __future__ import annotations

import gzip

import pytest

from nws.base.errors import UsageError
from nws.forecasting.measurementfiles import read_measurements
from nws.sources.csvfile import read_columns


@pytest.fixture
def write(tmp_path):
    def make(content, name="m.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


def problems(path):
    with pytest.raises(UsageError) as caught:
        read_measurements(path)
    return str(caught.value).replace(f"{path}", "F").splitlines()


def test_series_come_interleaved_under_any_column_names(write):
    path = write("pair,k,rtt_s\r\na-b,0,0.5\r\nc-d,0,1\r\n\r\na-b,6,0.25\r\na-b,6,1e-3\r\n")
    assert read_measurements(path) == {"a-b": [0.5, 0.25, 0.001], "c-d": [1.0]}


def test_gzip_is_known_by_its_content_not_its_name(write):
    text = b"series,t,value\na,0,1\n"
    assert read_measurements(write(gzip.compress(text), "m.csv")) == {"a": [1.0]}
    assert read_measurements(write(gzip.compress(text) + gzip.compress(b"a,1,2\n"), "m.gz")) == {
        "a": [1.0, 2.0]
    }


def test_problem_is_told_at_once_with_its_line(write):
    path = write("series,t,value\na,0,1\na,one,2\na,3,\n,4,5\na,9,nan\na,7\na,8,1\n")
    assert problems(path) == [
        "F:3: second column, the time: 'one' is not a finite number",
        "F:4: third column, the value: '' is not a finite number",
        "F:5: the first column, the name of the series, is empty",
        "F:6: third column, the value: 'nan' is not a finite number",
        "F:7: expected 3 columns, series,t,value; got 2",
    ]


@pytest.mark.parametrize("header", ["series,value", "a,0,1,2", "series"])
def test_header_must_name_three_columns(write, header):
    assert problems(write(f"{header}\na,1,2\n")) == [
        f"F:1: expected a header naming three columns, series,t,value; got {header!r}"
    ]


@pytest.mark.parametrize("content", ["", "series,t,value\n"])
def test_file_without_measurements_is_refused(write, content):
    assert problems(write(content)) == ["F:1: no measurements; expected a header and rows of series,t,value"]


def test_truncated_gzip_is_told_together_with_the_problems_before_it(write):
    rows = "".join(f"a,{i},{(i * 7919) % 1009}\n" for i in range(2000))
    packed = gzip.compress(f"series,t,value\na,x,1\n{rows}".encode())
    told = problems(write(packed[: len(packed) // 2]))
    assert told[0] == "F:2: second column, the time: 'x' is not a finite number"
    assert len(told) == 2
    assert told[1].endswith("the gzip data break off here; fetch the file again")


def test_broken_gzip_is_told(write):
    packed = bytearray(gzip.compress(b"series,t,value\na,0,1\n" * 50))
    packed[-6] ^= 0xFF
    assert "broken gzip data" in problems(write(bytes(packed)))[-1]


def test_bytes_that_are_no_text_are_told_with_their_place(write):
    path = write(b"series,t,value\na,0,1\nb\xff,0,1\n")
    assert problems(path) == ["F:3: not UTF-8 text: byte 0xff at column 2"]


def test_flood_of_problems_is_cut_and_counted(write):
    told = problems(write("series,t,value\n" + "a,0,bad\n" * 1000))
    assert len(told) == 51
    assert told[-1] == "F: and 950 further problems"


def test_field_beyond_reason_is_told_not_thrown(write):
    path = write("series,t,value\n" + "x" * 200_000 + ",0,1\na,y,1\n")
    assert problems(path) == [
        "F:2: not CSV: field larger than field limit (131072)",
        "F:3: second column, the time: 'y' is not a finite number",
    ]


def test_missing_file_is_named(tmp_path):
    path = tmp_path / "nowhere.csv"
    assert problems(path) == [
        "F: cannot be read: No such file or directory; expected a CSV file, plain or .gz"
    ]
    assert problems(tmp_path)[0].endswith("cannot be read: Is a directory; expected a CSV file, plain or .gz")


@pytest.mark.parametrize(
    "header", ["", "series,t,value\n", "Series , Time, Value\n", '"host","when","share"\n', "\ufeff"]
)
@pytest.mark.parametrize(
    "rows", ["cpu.new@a,30,0.5\ncpu.new@a,10,0.25\n", '"cpu.new@a", 30, 0.5\n"cpu.new@a", 10, "0.25"\n']
)
def test_file_is_read_alike_by_score_and_insert(write, header, rows):
    path = write(header + rows)
    assert read_measurements(path) == {"cpu.new@a": [0.25, 0.5]}
    columns = read_columns(str(path), now=1e9)
    assert columns.names == ["cpu.new@a"]
    assert [*zip(columns.t, columns.value, strict=True)] == [(30.0, 0.5), (10.0, 0.25)]
