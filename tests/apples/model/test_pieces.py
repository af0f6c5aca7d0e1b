"""The numbers of a plan in the formats of codes."""

import dataclasses
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from apples.errors import ConfigError
from apples.model.cut import Box, slab_boxes
from apples.model.pieces import FORMATS, Pieces, formatted
from tests.transcripts import recorded

PIECES = Pieces(size=40, hosts=("a", "a", "b"), rows=(10, 10, 20), predicted_s=3.5)


@pytest.mark.mpi
def test_rankfile_of_two_plans_binds_no_rank_of_open_mpi(tmp_path, monkeypatch):
    mpiexec = shutil.which("mpiexec.openmpi") or pytest.skip(
        "Open MPI is not installed (Debian: openmpi-bin)"
    )
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    (tmp_path / "hosts").write_text(dataclasses.replace(PIECES, hosts=(socket.gethostname(),) * 3).rankfile)
    words = [mpiexec, "--hostfile", "hosts", "--map-by", "seq", "--bind-to", "none", "-n", "3"]
    command = [*words, "grep", "Cpus_allowed_list", "/proc/self/status"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    (allowed,) = re.findall("Cpus_allowed_list.*", Path("/proc/self/status").read_text())
    assert done.stdout.splitlines() == [allowed] * 3


@recorded("apples/model/slab_formats.txt", "form")
def test_format_is_what_the_code_reads(answered, form):
    answered(FORMATS[form](PIECES))


def test_meep_layout_is_a_tree_of_cuts():
    made = []

    class Layout:
        @staticmethod
        def BinaryPartition(**given):
            made.append(given)
            return given

        Z = "z"

    names = {"mp": Layout, "sz": 8.0}
    exec(FORMATS["meep"](PIECES), names)
    layout = names["chunk_layout"]
    assert (layout["split_pos"], layout["left"]) == (-2.0, {"proc_id": 0})
    assert layout["right"]["split_pos"] == 0.0
    assert layout["right"]["left"] == {"proc_id": 1}
    assert layout["right"]["right"] == {"proc_id": 2}


def test_one_rank_needs_no_cut():
    alone = Pieces(size=4, hosts=("a",), rows=(4,), predicted_s=1.0)
    assert FORMATS["lammps"](alone) == "processors 1 1 1\n"
    assert FORMATS["meep"](alone) == "chunk_layout = mp.BinaryPartition(proc_id=0)\n"


GRID = Pieces(
    size=10,
    hosts=("a", "b", "c", "d"),
    rows=(6, 6, 4, 4),
    predicted_s=2.0,
    kind="rectilinear",
    boxes=tuple(Box(x=x, y=y, width=w, height=h) for y, h in ((0, 6), (6, 4)) for x, w in ((0, 5), (5, 3))),
    why="rectilinear cut 2 × 2: 2 s",
)


@recorded("apples/model/box_formats.txt", "form")
def test_grid_of_boxes_is_what_the_code_reads(answered, form):
    try:
        answered(formatted(GRID, form))
    except ConfigError as refusal:
        answered(str(refusal))


def test_format_of_slabs_refuses_boxes():
    slabs = Pieces(size=10, hosts=("a", "b"), rows=(6, 4), predicted_s=2.0, boxes=slab_boxes((6, 4), 8))
    assert formatted(slabs, "petsc") == "-da_processors_x 1 -da_processors_y 2 -lx 8 -ly 6,4\n"
    assert formatted(slabs, "lammps") == FORMATS["lammps"](slabs)
    with pytest.raises(ConfigError, match="--format pism needs a second axis"):
        formatted(PIECES, "pism")
