import os
from dataclasses import replace

import numpy as np
import pytest

from stencil_app.errors import CheckpointError, OutputError
from stencil_app.files import checkpoint
from stencil_app.files.checkpoint import Header
from stencil_app.files.whole import SharedFile

HEADER = Header(
    application="heat", parameters={"size": 4, "nx": 3}, iteration=7, residual_bits=5, mesh=(4, 2, 3)
)


@pytest.fixture
def field():
    return np.random.default_rng(3).random((4, 2, 3))


@pytest.fixture
def saved(tmp_path, alone, field):
    path = tmp_path / "run.ck"
    checkpoint.write(alone, path, HEADER, interior=field, first_row=0)
    return path


def refusal(action):
    with pytest.raises(CheckpointError) as caught:
        action()
    return str(caught.value)


def test_header_and_any_rows_come_back(saved, field):
    assert checkpoint.read_header(saved) == HEADER
    part = np.empty((2, 2, 3))
    checkpoint.read_rows(saved, HEADER, part, 1)
    assert (part == field[1:3]).all()
    assert os.listdir(saved.parent) == ["run.ck"]


def test_only_the_altered_row_is_refused(saved):
    with saved.open("r+b") as file:
        file.seek(HEADER.row_offset(2) + 5)
        file.write(b"\x55")
    part = np.empty((2, 2, 3))
    checkpoint.read_rows(saved, HEADER, part, 0)
    message = refusal(lambda: checkpoint.read_rows(saved, HEADER, part, 1))
    assert "the checksum of row 2 does not match: the file was altered after it was written" in message


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b"PNG" + b, "not a checkpoint; give a file that --checkpoint wrote"),
        (lambda b: b"", "not a checkpoint"),
        (lambda b: b[:15], "its header is damaged; use an older checkpoint or start afresh"),
        (lambda b: b[:30] + b"?" + b[31:], "its header is damaged"),
        (lambda b: b[:8] + b"\x09" + b[9:], "format version 9, this program reads 1"),
        (lambda b: b[:-1], "truncated: 4319 bytes, 4320 expected for 4 × 2 × 3 cells"),
        (lambda b: b + b"x", "too long: 4321 bytes, 4320 expected"),
    ],
)
def test_damaged_files_are_told_apart(saved, damage, message):
    saved.write_bytes(damage(saved.read_bytes()))
    assert message in refusal(lambda: checkpoint.read_header(saved))


def test_missing_file(tmp_path):
    assert "cannot be read: No such file" in refusal(lambda: checkpoint.read_header(tmp_path / "no"))


def test_parameter_that_differs_is_named(saved):
    assert checkpoint.mismatches(saved, HEADER, "heat", {"size": 5, "nx": 3, "ny": 2}) == [
        f"--restart {saved}: size is 4 in the file and 5 in this run; give --size 4",
        f"--restart {saved}: ny is None in the file and 2 in this run; give --ny None",
    ]
    (line,) = checkpoint.mismatches(saved, replace(HEADER, application="mhd"), "heat", {})
    assert line.endswith("written by mhd, this run is heat")


def test_failed_write_keeps_the_previous_checkpoint(saved, alone, field, monkeypatch):
    before = saved.read_bytes()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(
        OutputError, match=r"run\.ck: could not be written on \S+ \(No space left on device\)"
    ) as caught:
        checkpoint.write(alone, saved, HEADER, interior=field, first_row=0)
    assert caught.value.exit_code == 4
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == ["run.ck"]


def test_directory_that_is_gone_is_an_error_not_a_crash(tmp_path, alone):
    with (
        pytest.raises(OutputError, match="No such file or directory"),
        SharedFile(alone, tmp_path / "gone" / "file") as file,
    ):
        file.write(0, b"data")


def test_what_ends_the_block_early_leaves_nothing(tmp_path, alone):
    with pytest.raises(ZeroDivisionError), SharedFile(alone, tmp_path / "file") as file:
        file.write(0, bytes([1 // 0]))
    assert os.listdir(tmp_path) == []
