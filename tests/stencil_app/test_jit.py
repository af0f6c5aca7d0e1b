"""Compiled code: without a place to keep it, after a change in another module, and said when it takes a while."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np

from stencil_app import jit
from stencil_app.jit import kernel, sources_digest
from tests.transcripts import text_of

ROOT = Path(jit.__file__).resolve().parent.parent

GAIN = "GAIN = 2.0\n"
PART = text_of("stencil_app/part.txt")
KERNEL = text_of("stencil_app/kernels.txt")


def test_without_a_cache_directory_kernels_are_compiled_all_the_same(monkeypatch):
    real = numba.njit
    kept = []

    def njit(signatures, **options):
        if options.get("cache"):
            kept.append(signatures)
            raise RuntimeError("cannot cache function: no locator available")
        return real(signatures, **options)

    monkeypatch.setattr(numba, "njit", njit)

    @kernel("void(float64[::1])")
    def double(u):
        for i in range(u.size):
            u[i] *= 2.0

    field = np.ones(3)
    double(field)
    assert (field == 2.0).all()
    assert len(double.signatures) == len(kept) == 1


def test_code_kept_on_disk_is_used_until_a_module_it_is_made_of_changes(tmp_path):
    package = tmp_path / "stencil_app"
    package.mkdir()
    shutil.copy(Path(jit.__file__), package)
    for name, text in (("__init__", ""), ("gain", GAIN), ("part", PART), ("kernels", KERNEL), ("notes", "")):
        (package / f"{name}.py").write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        # Python's own bytecode files know sources by size and time in whole seconds only.
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def grow():
        words = [sys.executable, "-c", "import stencil_app.kernels"]
        done = subprocess.run(
            words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    assert grow() == ["compiling", "2.0 0.5"]
    (package / "notes.py").write_text("# no part of the kernels\n")
    assert grow() == ["2.0 0.5"]
    (package / "gain.py").write_text("GAIN = 4.0\n")
    assert grow() == ["compiling", "4.0 0.25"]


def test_digest_follows_imports_through_the_package():
    mhd = Path(jit.__file__).parent / "mhd"
    digests = {sources_digest(mhd / f"{name}.py") for name in ("halfstep", "primitive", "views")}
    assert len(digests) == 3
    assert mhd / "riemann.py" in jit._imported(mhd / "fluxes.py")
    assert mhd / "mesh.py" in jit._imported(mhd / "fluxes.py")
    assert mhd / "case.py" not in jit._imported(mhd / "fluxes.py")
