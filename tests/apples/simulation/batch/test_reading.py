"""Job logs as sites export them: one golden file of what is read, mended and left out."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from apples.errors import ConfigError
from apples.simulation.batch import reading
from apples.simulation.batch.reading import read_trace
from tests.transcripts import recorded

JOB_LOGS = Path(__file__).with_name("joblogs")
LINE = "1 0 10 500 8 -1 -1 8 600 -1 1 1 1 -1 -1 -1 -1 -1\n"


def outcome(path: Path) -> str:
    """Return jobs (id, wait, run, processors, request) and counts of a log, or its problem."""
    try:
        trace = read_trace(path)
    except ConfigError as error:
        return str(error)
    columns = (trace.id, trace.wait, trace.run, trace.procs, trace.request)
    jobs = [" ".join(f"{value:g}" for value in job) for job in zip(*columns, strict=True)]
    return "\n".join([*jobs, *trace.intake.report()])


def outcomes(directory: Path) -> str:
    """Return the outcomes of all logs of the file of inputs."""
    text = ""
    for part in (JOB_LOGS / "files.txt").read_text(encoding="utf-8").split("== ")[1:]:
        name, _, log = part.partition("\n")
        path = directory / "log.txt"
        path.write_text(log, encoding="utf-8")
        text += f"== {name}\n{outcome(path)}\n"
    return text


def test_job_logs_of_sites(tmp_path):
    assert outcomes(tmp_path) == (JOB_LOGS / "outcomes.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig", "utf-16"])
def test_log_compressed_is_known_by_content(tmp_path, pack, mark):
    (tmp_path / "log.swf").write_bytes(LINE.encode(mark))
    path = tmp_path / "log"
    # The mark of UTF-16 is recognised in plain files, which editors write.
    path.write_bytes(pack(LINE.encode(mark if pack is bytes else "utf-8")))
    assert read_trace(path).procs.tolist() == [8]


@recorded("apples/simulation/unreadable_logs.txt", "start")
def test_log_of_unreadable_compression_names_remedy(tmp_path, answered, start):
    path = tmp_path / "log.swf"
    path.write_bytes(start + bytes(20))
    with pytest.raises(ConfigError, match=r"log\.swf") as caught:
        read_trace(path)
    answered(str(caught.value).replace(f"{tmp_path}/", ""))


def test_log_that_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no regular file"):
        read_trace(tmp_path / "pipe")


@pytest.mark.covering("pack", "text")
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("text", ["\n", LINE, "x"])
def test_log_compressed_has_a_bound_on_its_expanded_size(tmp_path, monkeypatch, pack, text):
    monkeypatch.setattr(reading, "MOST_EXPANDED", 1 << 18)
    path = tmp_path / "log.swf"
    path.write_bytes(pack(text.encode() * ((1 << 18) + 1)))
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ConfigError, match=r"expands to more than 262144 characters; expand and cut it first"):
        read_trace(path)
