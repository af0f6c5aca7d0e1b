"""`nws check`, `nws repair` and `nws backup`, and commands on a damaged store."""

import json
import sqlite3

import pytest

from nws.base.lock import FileLock
from nws.memory import Memory
from nws.series import Measurement, Resource, Series

A, B = Series(Resource.CPU_NEW, "a"), Series(Resource.CPU_NEW, "b")
START = 1_790_000_000.0


@pytest.fixture
def store(tmp_path):
    """Two series of some hours in chunks, and nothing in the log."""
    path, now = tmp_path / "w.db", [START]
    with Memory(path, clock=lambda: now[0]) as memory:
        for i in range(40):
            now[0] = START + 600.0 * i
            memory.append([Measurement(A, now[0], float(i)), Measurement(B, now[0], -float(i))])
        now[0] += 9000.0
        while memory.tend(budget_s=1.0):
            pass
    return path


@pytest.fixture
def damaged(store):
    with sqlite3.connect(store) as connection:
        connection.execute(
            "UPDATE block SET data = x'07' WHERE rowid = "
            "(SELECT min(rowid) FROM block WHERE bucket_s = 0 AND series = 0)"
        )
    connection.close()
    return store


def test_check_of_a_sound_store_is_silent(nws, store):
    run = nws("check", "--store", store)
    assert (run.code, run.out) == (0, f"{store}: 80 sound samples of 2 series\n")


def test_check_of_a_damaged_store_names_the_hour(nws, damaged):
    run = nws("check", "--store", damaged)
    assert run.code == 4
    assert run.out.startswith("cpu.new@a: samples of 2026-09-21 ")
    document = json.loads(nws("check", "--store", damaged, "--json").out)
    assert len(document["damage"]) == 1


@pytest.mark.parametrize("command", ["export", "show", "forecast"])
def test_commands_on_a_damaged_store_end_with_a_message(nws, damaged, command):
    run = nws(command, "--store", damaged)
    assert "Traceback" not in run.err
    if command == "export":
        assert run.code == 4
        assert "damaged: cpu.new@a: samples of 2026-09-21 " in run.err


def test_repair_keeps_everything_else(nws, damaged):
    before = damaged.read_bytes()
    run = nws("repair", "--store", damaged)
    assert run.code == 0
    lost, _kept = run.out.splitlines()
    assert lost.startswith("lost: cpu.new@a: ")
    assert lost.endswith(" of 40 samples")
    assert damaged.with_name("w.db.damaged-1").read_bytes() == before
    assert nws("check", "--store", damaged).code == 0
    export = nws("export", "--store", damaged, B)
    assert len(export.out.splitlines()) == 41


def test_repair_of_a_store_in_use_is_refused(nws, damaged):
    with FileLock(damaged.with_name("w.db.lock")):
        run = nws("repair", "--store", damaged)
    assert run.code == 4
    assert "another weather service runs on this store" in run.err


def test_backup_of_an_open_store_is_a_store(nws, store, tmp_path):
    with Memory(store, clock=lambda: START) as memory:
        memory.append([Measurement(A, START + 40_000.0, 7.0)])
        assert nws("backup", tmp_path / "copy.db", "--store", store).code == 0
        assert not list(tmp_path.glob("copy.db-*"))
    assert "81 sound sample" in nws("check", "--store", tmp_path / "copy.db").out
    assert nws("backup", store, "--store", store).code == 4
    assert nws("backup", tmp_path / "none" / "copy.db", "--store", store).code == 4
