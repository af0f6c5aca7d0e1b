"""No room left: a clear error, nothing half kept, reading goes on, and so does writing once there is room."""

import os
import random
import subprocess
import sys
import textwrap

import pytest

from nws.base.errors import StoreError
from nws.memory import Memory, StoreFull
from nws.series import Measurement, Resource, Series
from tests.transcripts import text_of

A = Series(Resource.CPU_NEW, "a")
HOUR = 3600.0


@pytest.fixture
def crowd(memory):
    """Lets the file grow by so many pages and no more; None for as many as it wants."""

    def crowd(pages):
        with memory.database.lock:
            connection = memory.database.connection
            count = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={count + pages if pages is not None else 1 << 30}")

    return crowd


def test_full_disk_keeps_nothing_of_the_step_and_all_before(memory, crowd, kept):
    memory.append([Measurement(A, 1.0, 0.5)])
    crowd(0)
    with pytest.raises(
        StoreFull, match="no room left on its disk; nothing of this step was kept; make room"
    ) as caught:
        memory.append([Measurement(A, 2.0 + i, 0.5) for i in range(10_000)])
    assert isinstance(caught.value, StoreError)
    assert caught.value.exit_code == 4
    assert kept(memory) == {A: [(1.0, 0.5)]}
    assert memory.summaries()[0].samples == len(memory.samples(A)) == len(memory.rollup(A, bucket_s=60)) == 1
    crowd(None)
    memory.append([Measurement(A, 2.0, 0.6)])
    assert kept(memory) == {A: [(1.0, 0.5), (2.0, 0.6)]}


def test_no_room_to_close_an_hour(memory, crowd, clock, kept, settle):
    noise = random.Random(1)
    memory.append([Measurement(A, clock.now + i * 36.0, noise.random()) for i in range(3000)])
    everything = kept(memory)
    clock.now += 48 * HOUR
    crowd(0)
    with pytest.raises(StoreFull, match="no room left"):
        settle(memory, budget_s=10.0)
    assert kept(memory) == everything
    crowd(None)
    settle(memory)
    assert kept(memory) == everything


def test_what_is_kept_is_said_to_be_kept_though_housekeeping_finds_no_room(
    memory, crowd, clock, kept, settle, monkeypatch
):
    monkeypatch.setattr("nws.memory.store._ON_THE_WAY_S", 10.0)
    noise = random.Random(1)
    memory.append([Measurement(A, clock.now + i * 36.0, noise.random()) for i in range(3000)])
    clock.now += 48 * HOUR
    crowd(0)
    memory.append([Measurement(A, clock.now, 1.0)])
    assert kept(memory)[A][-1] == (clock.now, 1.0)
    with pytest.raises(StoreFull):
        settle(memory, budget_s=10.0)


def test_file_as_long_as_it_may_be(path):
    """The limit is of a process, so it is a process of its own that meets it, and lives on."""
    code = textwrap.dedent(text_of("nws/memory/full_writer.txt"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "weather.db: no room left on its disk or within a quota or limit; nothing of this" in done.stdout


def test_disk_that_is_full(tmp_path, kept):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk of its own cannot be mounted here: it takes root and the right to mount")
    try:
        with Memory(disk / "w.db") as memory:
            memory.append([Measurement(A, 0.0, 0.5)])
            before = kept(memory)
            filler = disk / "filler"
            with pytest.raises(OSError, match="No space left"):
                filler.write_bytes(bytes(1 << 20))
            with pytest.raises(StoreFull, match="no room left on its disk; nothing of this step was kept"):
                memory.append([Measurement(A, 1.0 + i, 0.5) for i in range(5000)])
            assert kept(memory) == before
            with Memory(disk / "w.db") as other:
                assert kept(other) == before
            os.unlink(filler)
            memory.append([Measurement(A, 1.0, 0.6)])
            assert len(memory.samples(A)) == 2
    finally:
        subprocess.run(["umount", str(disk)], check=True)
