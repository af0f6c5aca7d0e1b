"""Compiled code: without a place to keep it, and after a change in another module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np

import nws
from nws.forecasting.batteries import BatteryBank
from nws.forecasting.compiling import Kernel, compiled
from nws.forecasting.kernel import advance_many
from tests.transcripts import text_of

SMOOTH = text_of("nws/forecasting/jit_smooth.txt")


def test_without_a_cache_directory_functions_are_compiled_all_the_same(monkeypatch):
    real = numba.njit

    def njit(*functions, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*functions, **options)

    monkeypatch.setattr(numba, "njit", njit)

    def following(x):
        return x + 1

    assert compiled(following)(2) == 3


def test_code_kept_on_disk_is_used_until_any_module_changes(tmp_path):
    package = tmp_path / "nws"
    shutil.copytree(Path(nws.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def smooth():
        command = [sys.executable, "-c", SMOOTH]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert smooth() == ["0.05", "0"]
    assert smooth() == ["0.05", "1"]
    layout = package / "forecasting" / "statelayout.py"
    layout.write_text(layout.read_text().replace("GAINS = (0.05,", "GAINS = (0.25,"))
    assert smooth() == ["0.25", "0"]


def test_arrays_of_every_kind_share_one_compiled_kernel(monkeypatch):
    monkeypatch.setattr(Kernel, "left", -1.0)
    bank = BatteryBank()
    bank.add(2)
    fixed = np.array([1.0, 2.0])
    fixed.flags.writeable = False
    bank.update_many(np.array([0, 1], np.int32), fixed, 0.0)
    bank.update_many([0, 1], np.arange(4.0)[::2], fixed)
    bank.update_many((1, 0), np.array([1, 2]), np.float32(3))
    assert len(advance_many.compiled.signatures) == 1
