"""Rounding, keeping, counting."""

import random
import struct

import pytest

from nws.base.errors import ProbeError, StoreError
from nws.daemon.daemon import host_facts
from nws.daemon.jobs import Keeper, rounded, status
from nws.series import Measurement, Series
from nws.timing.periodic import Tally

CPU = Series.parse("cpu.new@a")


def test_times_are_whole_milliseconds_and_values_single_precision():
    dice = random.Random(3)
    for _ in range(200):
        value = dice.lognormvariate(0, 20)
        kept = rounded(Measurement(CPU, 1.7e9 + dice.random(), value))
        assert kept.t == round(kept.t * 1000) / 1000
        assert kept.value == pytest.approx(value, rel=1e-6)
        assert struct.unpack("<f", struct.pack("<f", kept.value)) == (kept.value,)


class Disk:
    """A spool on a disk that is full for a while."""

    path = "spool.db"

    def __init__(self):
        self.full, self.kept = False, []

    def add(self, measurements):
        if self.full:
            raise StoreError("spool.db: no space left")
        self.kept += measurements


class Sensor:
    def measure(self):
        return [Measurement(CPU, 1.0, 0.5)]


def test_spool_that_cannot_be_written_fails_the_run_and_is_told_once():
    disk, said = Disk(), []
    run = Keeper(disk, said.append).job(Sensor())
    run()
    disk.full = True
    for _ in range(3):
        with pytest.raises(ProbeError, match="could not be kept"):
            run()
    disk.full = False
    run()
    assert len(disk.kept) == 2
    assert said == ["spool.db: no space left", "spool.db: the spool can be written again"]


def test_status_sums_all_jobs():
    one = Tally(due=10, done=5, failed=1, missed=1, skipped=1)
    two = Tally(due=3, done=3, failed=0, missed=0, skipped=0)
    found = status({"cpu": one, "network": two}, 7, 2)
    counts = {n: found[n] for n in ("done", "failed", "missed", "skipped", "merged", "buffered", "dropped")}
    assert counts == dict(done=8, failed=1, missed=1, skipped=1, merged=2, buffered=7, dropped=2)  # noqa: C408
    assert found["cpu_s"] > 0
    assert found["rss_bytes"] > 1e6


def test_facts_of_this_host():
    facts = host_facts()
    assert facts["cpus"] >= 1
    assert facts["memory_bytes"] > 1 << 20


def test_host_that_says_nothing(tmp_path):
    facts = host_facts(tmp_path)
    assert facts["cpu_model"] == ""
