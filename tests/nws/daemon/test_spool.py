"""The spool: numbers in order, nothing twice, nothing lost but what is counted."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nws.base.errors import StoreDamaged, StoreError
from nws.daemon.spool import Spool
from nws.series import Measurement, Series
from tests.transcripts import text_of

CPU, MEMORY = Series.parse("cpu.new@a"), Series.parse("memory.free@a")


def some(*values, series=CPU):
    return [Measurement(series, 1000.0 + v, float(v)) for v in values]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "spool.db"


def values(parcel):
    return [m.value for m in parcel.samples]


def test_what_goes_in_comes_out_in_order(path):
    with Spool(path, "a") as spool:
        spool.add(some(1, 2))
        spool.add(some(3, series=MEMORY))
        parcel = spool.oldest(10)
        assert parcel.samples == (*some(1, 2), *some(3, series=MEMORY))
        assert parcel.next == parcel.first + 3
        assert values(spool.oldest(2)) == [1, 2]


def test_spool_step_that_fails_at_its_end_removes_nothing(path, monkeypatch):
    with Spool(path, "a") as spool:
        spool.add(some(1, 2, 3))
        writing = spool._file.writing

        @contextmanager
        def full():
            with writing() as connection:
                yield connection
                # rolled back
                raise StoreError("no room left")

        monkeypatch.setattr(spool._file, "writing", full)
        with pytest.raises(StoreError):
            spool.add(some(4))
        monkeypatch.setattr(spool._file, "writing", writing)
        assert (len(spool), spool.dropped) == (3, 1)
        parcel = spool.oldest(10)
        assert values(parcel) == [1, 2, 3]
        assert (spool.acknowledge(parcel.next), len(spool)) == (3, 0)


def test_damaged_samples_are_dropped_and_counted(path, caplog):
    with Spool(path, "a") as spool:
        spool.add(some(1, 2, 3))
        first = spool.oldest(10).first
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE sample SET value = 9 WHERE value = 1")
        connection.execute("UPDATE sample SET series = 99 WHERE value = 3")
    connection.close()
    with Spool(path, "a") as spool:
        assert spool.shift(5.0) == 0
        parcel = spool.oldest(10)
        assert (values(parcel), parcel.first) == ([2.0], first + 1)
        assert (len(spool), spool.dropped) == (1, 2)
    assert "2 samples are damaged and dropped" in caplog.text


@pytest.mark.parametrize("name", ["next", "dropped"])
def test_fact_of_another_type_is_damage(path, name):
    Spool(path, "a").close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE fact SET value = 9e999 WHERE name = ?", (name,))
    connection.close()
    with pytest.raises(StoreDamaged, match=f"{name} is inf, expected a whole number; move it away"):
        Spool(path, "a")


def test_negative_zero_is_no_damage(path):
    with Spool(path, "a") as spool:
        spool.add([Measurement(CPU, 1000.0, -0.0)])
        assert values(spool.oldest(10)) == [0.0]


def test_text_in_place_of_a_value_is_damage(path):
    with Spool(path, "a") as spool:
        spool.add(some(1, 2))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE sample SET value = 'text' WHERE value = 1")
    connection.close()
    with Spool(path, "a") as spool:
        assert values(spool.oldest(10)) == [2.0]


def test_moved_times_keep_their_checksum(path):
    with Spool(path, "a") as spool:
        spool.add(some(1))
        assert spool.shift(5.0) == 1
        assert spool.oldest(10).samples[0].t == 1006.0


def test_what_was_acknowledged_is_gone_and_numbers_go_on(path):
    with Spool(path, "a") as spool:
        spool.add(some(1, 2, 3))
        first = spool.oldest(9).first
        spool.acknowledge(first + 2)
        assert values(spool.oldest(9)) == [3]
        assert len(spool) == 1
        spool.acknowledge(first + 3)
        assert spool.oldest(9) is None
        spool.add(some(4))
        assert spool.oldest(9).first == first + 3


def test_nothing_to_keep_is_nothing(path):
    with Spool(path, "a") as spool:
        spool.add([])
        assert (len(spool), spool.oldest(1)) == (0, None)


def test_restart_keeps_what_waits_and_never_uses_a_number_again(path):
    with Spool(path, "a") as spool:
        stream = spool.stream
        spool.add(some(1, 2))
        first = spool.oldest(9).first
    with Spool(path, "a") as spool:
        assert (spool.stream, len(spool)) == (stream, 2)
        spool.add(some(3))
        # a gap in the numbers ends a parcel
        assert values(spool.oldest(9)) == [1, 2]
        spool.acknowledge(first + 2)
        assert values(spool.oldest(9)) == [3]
        assert spool.oldest(9).first > first + 2


def test_server_that_has_seen_more_moves_the_numbers(path):
    """A spool that was put back from an old copy: its next numbers were used already."""
    with Spool(path, "a") as spool:
        spool.add(some(1))
        seen = spool.oldest(9).next + 1_000_000_000
        spool.acknowledge(seen)
        spool.add(some(2))
        assert spool.oldest(9).first == seen


def test_full_spool_drops_the_oldest_and_counts_them(path):
    with Spool(path, "a", most_bytes=100_000) as spool:
        for start in range(0, 20_000, 100):
            spool.add(some(*range(start, start + 100)))
        assert len(spool) + spool.dropped == 20_000
        assert spool.dropped > 10_000
        newest = []
        while (parcel := spool.oldest(5000)) is not None:
            newest += values(parcel)
            spool.acknowledge(parcel.next)
        assert newest == list(range(spool.dropped, 20_000))
        dropped = spool.dropped
    assert path.stat().st_size < 200_000
    with Spool(path, "a") as spool:
        assert spool.dropped == dropped


def test_second_process_is_kept_out(path):
    with Spool(path, "a") as spool:
        spool.add(some(1))
        with pytest.raises(StoreError, match=r"another sensor uses this spool; name another \(--spool\)"):
            Spool(path, "a")


def test_spool_of_another_host(path):
    with Spool(path, "a") as spool:
        spool.add(some(1))
        stream, following = spool.stream, spool.oldest(1).next
    with pytest.raises(StoreError, match="holds 1 samples of host a; name another for b"):
        Spool(path, "b")
    with Spool(path, "a") as spool:
        spool.acknowledge(following)
    with Spool(path, "b") as spool:
        assert spool.stream != stream


def test_file_that_is_no_spool(path):
    path.parent.mkdir()
    path.write_text("no database, and longer than a header of one would be" * 50)
    with pytest.raises(StoreError, match=r"spool.db: not an SQLite database; move it away"):
        Spool(path, "a")


def test_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"its directory cannot be made: .*name another spool \(--spool\)"):
        Spool(tmp_path / "file" / "spool.db", "a")


def test_full_disk_is_told_counted_and_over_when_there_is_room(path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Spool(path, "a") as spool:
        spool.add(some(*range(100)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
        try:
            with pytest.raises(StoreError, match=r"no room left on its disk.*make room"):
                spool.add(some(*range(100_000), series=MEMORY))
            lost = spool.dropped
            assert lost > 0
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        spool.add(some(7))
        everything = []
        while (parcel := spool.oldest(5000)) is not None:
            everything += values(parcel)
            spool.acknowledge(parcel.next)
        assert everything[-1] == 7
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


_WRITER = text_of("nws/daemon/spool_writer.txt")


def test_everything_it_said_it_kept_is_there_after_kill_9(path):
    said = 0
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(said)], stdout=subprocess.PIPE, text=True
        )
        for line in writer.stdout:
            said = int(line)
            if said % 100 == 37:
                writer.kill()
                break
        # what it managed to say before it died counts too
        said = max([said, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
    found, numbers = [], []
    with Spool(path, "a") as spool:
        while (parcel := spool.oldest(50)) is not None:
            found += values(parcel)
            numbers += range(parcel.first, parcel.next)
            spool.acknowledge(parcel.next)
    assert numbers == sorted(set(numbers))
    # in order, without a half step; the step under way may have been kept or not
    whole = [n for n in found if n == int(n)]
    assert found == [x for n in whole for x in (n, n + 0.5)]
    assert set(range(1, said + 1)) <= set(whole)
    assert whole == sorted(whole)
    assert os.path.exists(path)


class Model(RuleBasedStateMachine):
    """Any order of adding, sending, acknowledging and restarting against a list."""

    def __init__(self):
        super().__init__()
        import tempfile
        from pathlib import Path

        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "spool.db"
        self.spool = Spool(self.path, "a")
        self.waiting, self.count, self.acknowledged = [], 0, 0

    @rule(many=st.integers(1, 5))
    def add(self, many):
        fresh = some(*range(self.count, self.count + many))
        self.count += many
        self.spool.add(fresh)
        self.waiting += [m.value for m in fresh]

    @precondition(lambda self: self.waiting)
    @rule(most=st.integers(1, 7), part=st.floats(0, 1))
    def deliver(self, most, part):
        parcel = self.spool.oldest(most)
        many = len(parcel.samples)
        assert parcel.first >= self.acknowledged
        assert values(parcel) == self.waiting[:many]
        taken = round(part * many)
        self.spool.acknowledge(parcel.first + taken)
        self.acknowledged = parcel.first + taken
        del self.waiting[:taken]

    @rule()
    def restart(self):
        self.spool.close()
        self.spool = Spool(self.path, "a")

    @invariant()
    def counts(self):
        assert len(self.spool) == len(self.waiting)

    def teardown(self):
        self.spool.close()
        self.directory.cleanup()


Model.TestCase.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)
TestAgainstAList = Model.TestCase
