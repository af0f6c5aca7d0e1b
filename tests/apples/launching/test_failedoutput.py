"""The quotation of a failed program's output, and the file with all of it."""

import os

import pytest

from apples.launching import failedoutput, seenmpi
from apples.launching.failedoutput import described_output
from apples.launching.mpis import Family
from nws.base.paths import state_dir

MELT = b"""LAMMPS (29 Sep 2021)
Reading data file ...
ERROR: Cannot open file melt.data: No such file or directory (src/read_data.cpp:371)
Last command: read_data melt.data
Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0
"""
TRACE = (
    b"""Traceback (most recent call last):
  File "itr.py", line 9, in <module>
    raise ValueError("bad input on rank 0")
ValueError: bad input on rank 0
"""
    + b"thread 12: nothing to do\n" * 100
)
FATAL = b"Program gmx mdrun\nFatal error:\nThere is no domain decomposition for 7 ranks\n" + b"-" * 900


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            MELT,
            "; its output states: ERROR: Cannot open file melt.data: No such file or directory (src/read_data.cpp:371)",
        ),
        (TRACE, "; its output states: ValueError: bad input on rank 0"),
        (FATAL, "; its output states: Fatal error: There is no domain decomposition for 7 ranks"),
        (
            b"\0" * 5000 + b"At line 5\nFortran runtime error: End of file\n" + b"\0" * 5000,
            "; its output states: Fortran runtime error: End of file",
        ),
        (b"error: a\n" * 1000 + b"error: b\n", "; its output states: error: a; error: b"),
        (b"x" * 3_000_000 + b"\nerror: late\n", "; its output states: error: late"),
        (b"first\nlast", "; its output ended with: first\nlast"),
    ],
    ids=["lammps", "python", "gromacs", "nul", "repeated", "long", "none"],
)
def test_failed_output_quotes_errors_and_names_the_file(tmp_path, output, message):
    written = tmp_path / "output.txt"
    written.write_bytes(output)
    stored = state_dir() / "output" / "my_melt.txt"
    assert described_output("my melt", written) == f"{message}; all of it is in {stored}"
    assert stored.read_bytes() == output


@pytest.mark.parametrize("output", [None, b"", b"\0\0"])
def test_failed_output_without_text_is_not_described(tmp_path, output):
    if output is not None:
        (tmp_path / "output.txt").write_bytes(output)
    assert described_output("melt", tmp_path / "output.txt") == ""


def test_family_seen_earlier_pipe_in_its_place_counts_as_unseen(state_of_its_own):
    seenmpi.remember_family("./solver", "mine", Family.OPEN_MPI)
    (file,) = (state_of_its_own / "mpi").iterdir()
    assert seenmpi.seen_family("./solver", "mine") is Family.OPEN_MPI
    file.unlink()
    os.mkfifo(file)
    assert seenmpi.seen_family("./solver", "mine") is None


def test_failed_output_beyond_the_bound_is_stored_in_part(state_of_its_own, tmp_path, monkeypatch):
    monkeypatch.setattr(failedoutput, "_STORED", 1 << 20)
    (tmp_path / "out").write_bytes(b"error: too hot\n" + b"x" * (1 << 20))
    said = failedoutput.described_output("solver", tmp_path / "out")
    assert said.endswith(f"; its first 1 MB are in {state_of_its_own}/output/solver.txt")
    assert (state_of_its_own / "output" / "solver.txt").stat().st_size == 1 << 20
