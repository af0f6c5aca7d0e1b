"""Files of the first release: `data/weather-v1.db` was made by it, half in chunks and half not."""

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nws.base.errors import StoreError
from nws.memory import Memory
from nws.series import Measurement, Series

V1 = Path(__file__).parent / "data" / "weather-v1.db"
CPU, LATENCY, FREE = (Series.parse(n) for n in ("cpu.new@a", "network.latency@a>b", "memory.free@b"))
TIMES = [1_700_000_000 + 60.25 * i for i in range(150)]


@pytest.fixture
def old(path):
    path.parent.mkdir()
    shutil.copy(V1, path)
    return path


def everything():
    cpu = [(t, i / 150) for i, t in enumerate(TIMES)]
    cpu.insert(1, (1_700_000_030.5, -0.5))
    return {
        CPU: cpu,
        LATENCY: [(t + 0.1, 1e-5 * (i + 1)) for i, t in enumerate(TIMES)],
        FREE: [(t + 0.2, 1e9 + i) for i, t in enumerate(TIMES) if i >= 100],
    }


def test_every_sample_is_there(old, clock, kept):
    clock.now = TIMES[-1]
    for _ in range(2):
        with Memory(old, clock=clock) as memory:
            assert kept(memory) == everything()
            assert memory.names() == [str(CPU), str(LATENCY), str(FREE)]
            assert [s.samples for s in memory.summaries()] == [151, 50, 150]


def test_it_goes_on_as_any_other(old, clock, kept, settle):
    clock.now = TIMES[-1]
    expected = everything()
    with Memory(old, clock=clock) as memory:
        for i in range(100):
            clock.now += 60.0
            memory.append([Measurement(CPU, clock.now, float(i))])
            expected[CPU].append((clock.now, float(i)))
        settle(memory)
        assert kept(memory) == expected
        buckets = memory.rollup(CPU, bucket_s=600)
        assert buckets.count.sum() == len(expected[CPU])
        assert (buckets.low.min(), buckets.high.max()) == (-0.5, 99.0)


def test_two_processes_that_open_it_at_once(old):
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from nws.memory import Memory
        with Memory(Path(sys.argv[1]), clock=lambda: 1.7e9) as memory:
            print(sum(s.samples for s in memory.summaries()))
    """)
    command = [sys.executable, "-c", code, str(old)]
    openers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [opener.communicate(timeout=60)[0] for opener in openers] == ["351\n", "351\n"]


def test_a_damaged_one_is_left_as_it_was(old):
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE chunk SET data = x'01aa'")
    connection.close()
    before = old.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"damaged: chunk that does not decompress: .*move it away"):
            Memory(old)
    # the write-ahead mode is noted in the header, bytes 18 and 19, and counted
    assert old.read_bytes()[100:] == before[100:]
    with sqlite3.connect(old) as connection:
        assert connection.execute("SELECT count(*) FROM hot").fetchone() == (130,)
    connection.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\x05", "chunk of version b'.x05' in a file of schema 1"), (None, "multiple of 16")],
)
def test_what_no_release_has_written(old, data, reason):
    import zlib

    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE chunk SET data = ?", (data or b"\x01" + zlib.compress(b"abc"),))
    connection.close()
    with pytest.raises(StoreError, match=f"damaged: .*{reason}"):
        Memory(old)


def test_a_sample_of_no_series(old):
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE hot SET series = 99 WHERE id = (SELECT max(id) FROM hot)")
    connection.close()
    with pytest.raises(StoreError, match="damaged: samples of series 99, which has no name"):
        Memory(old)
