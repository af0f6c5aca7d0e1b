"""History: every run leaves a record, benchmarks are kept, and damage costs only what it hits, and is reported."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from apples.costs.runs import training_run
from apples.costs.store import History, new_id
from apples.errors import HistoryError, UnknownRun
from apples.model.plan import LeftOut, Outcome, RankStatus, Record
from apples.model.template import Benchmark
from tests.apples.samples import a_plan, an_assignment, an_observation


def a_record(started_at=1.7e9, key="heat", observed_s=2.5, slab_rows=64):
    plan = a_plan(
        an_assignment(host="alpha", compute_s=2.0, communicate_s=0.1, overhead_s=0.3),
        predicted_s=2.4,
        high_s=math.inf,
        taken=(("alpha", "fastest"),),
        left_out=(LeftOut(host="beta", reason="busy"),),
    )
    outcome = Outcome(
        ended="finished",
        exit_code=0,
        observed_s=observed_s,
        statuses=(RankStatus(rank=0, host="alpha", exit_code=0, pid=7),),
        observations=(an_observation(host="alpha", setup_s=0.1, compute_s=2.1, total_s=2.4),),
    )
    return Record(
        id=new_id(started_at),
        started_at=started_at,
        world="mpiexec",
        key=key,
        slab_rows=slab_rows,
        plan=plan,
        outcome=outcome,
        snapshot={"hosts": [{"host": "alpha", "cpu_type": "lab"}]},
        workload={"iterations": 500},
        options={"settings": {"nx": "64"}},
    )


@pytest.fixture
def notes():
    return []


@pytest.fixture
def history(tmp_path, notes):
    return History(tmp_path / "state" / "history.db", notes.append)


def change(history, statement, *values):
    """Change the file behind the history's back."""
    with closing(sqlite3.connect(history.path)) as connection, connection:
        connection.execute(statement, values)


def test_history_append_returns_record_as_it_was(history):
    record = a_record()
    history.append(record)
    assert history.records() == [record]
    assert history.get(record.id) == record


def test_history_append_twice_replaces_record(history):
    begun = replace(a_record(), outcome=None)
    history.append(begun)
    assert history.records() == [begun]
    assert history.training_runs("heat") == {}
    ended = replace(begun, outcome=a_record().outcome)
    history.append(ended)
    assert history.records() == [ended]
    assert history.training_runs("heat") == {64: [training_run(ended)]}


def test_history_append_unusual_id_is_refused(history):
    with pytest.raises(HistoryError, match="'run 1' is no id of a run; ids come from"):
        history.append(replace(a_record(), id="run 1"))


def test_history_records_are_chosen_by_key_and_age(history):
    old, new, other = a_record(100.0), a_record(200.0), a_record(150.0, key="jacobi2d")
    for record in (new, other, old):
        history.append(record)
    assert history.records() == [old, other, new]
    assert history.records("heat") == [old, new]
    assert history.records("heat", newest=1) == [new]
    assert history.records(newest=2) == [other, new]
    assert history.records(newest=0) == []
    assert history.records(application="mhd3d") == []


def test_new_ids_are_unique_and_sort_by_time():
    ids = [new_id(1.7e9 + i * 1e-3) for i in range(100)]
    assert ids == sorted(ids)
    assert len({new_id(1.7e9) for _ in range(100)}) == 100


def test_history_get_unknown_run_names_command(history):
    with pytest.raises(UnknownRun, match="no run 'yesterday'; `apples history` lists the runs"):
        history.get("yesterday")


def test_training_runs_are_grouped_by_slab_size(history):
    runs = [a_record(float(k), slab_rows=rows) for k, rows in enumerate((64, 32, 64))]
    for record in (*runs, a_record(9.0, key="other"), replace(a_record(10.0), outcome=None)):
        history.append(record)
    first, small, last = map(training_run, runs)
    assert history.training_runs("heat") == {32: [small], 64: [first, last]}


def test_training_runs_newest_of_each_size_only(history):
    for k in range(203):
        history.append(a_record(float(k), slab_rows=32 if k < 2 else 64))
    by_rows = history.training_runs("heat")
    assert (len(by_rows[32]), len(by_rows[64])) == (2, 200)
    assert by_rows[64][-1].id.startswith("19700101T000322")


def judged(record, world="mpiexec"):
    return replace(record, world=world, plan=replace(record.plan, high_s=3.0))


def test_judged_runs_are_of_one_platform_and_load(history):
    for k, (seconds, world) in enumerate(
        [(2.5, "mpiexec"), (2.6, "mock"), (2.7, "mpiexec"), (2.8, "mpiexec")]
    ):
        history.append(judged(a_record(float(k), observed_s=seconds), world))
    (idle,) = {loaded for _, loaded in history.judged_kinds(None)}
    runs = history.judged_runs("mpiexec", loaded=idle, newest=2)
    assert [run.observed_s for run in runs] == [2.7, 2.8]
    assert history.judged_runs("mpiexec", loaded=not idle, newest=2) == []
    assert {world: len(runs) for (world, _), runs in history.judged_kinds("heat").items()} == {
        "mock": 1,
        "mpiexec": 3,
    }
    assert history.judged_kinds("jacobi2d") == {}


def test_damaged_record_costs_itself_and_is_reported_once(history, notes):
    sound, damaged = a_record(100.0), a_record(200.0)
    for record in (sound, damaged):
        history.append(record)
    change(
        history, "UPDATE runs SET record = substr(record, 1, 40), training = ? WHERE id = ?", b"", damaged.id
    )
    for _ in range(2):
        assert history.records() == [sound]
        assert history.training_runs("heat") == {64: [training_run(sound)]}
    (note,) = notes
    assert note.startswith(f"{history.path}: the record {damaged.id} is damaged (its checksum does not match")
    with pytest.raises(HistoryError, match=f"the record of run {damaged.id} is damaged"):
        history.get(damaged.id)


def test_history_of_foreign_file_names_remedy(tmp_path):
    path = tmp_path / "history.db"
    path.write_text("not a database " * 100)
    with pytest.raises(HistoryError, match="not an SQLite database; move it away") as caught:
        History(path)
    assert caught.value.exit_code == 4


def test_history_damaged_page_costs_its_own_records(history, notes):
    records = [a_record(100.0 + i) for i in range(60)]
    for record in records:
        history.append(record)
    measured = Benchmark(ranks=1, seconds_per_row=1.0, startup_s=0.0, bytes_per_row=1.0)
    history.put_benchmark("heat", 64, "lab", measured, 1.0)
    history.close()
    data = bytearray(history.path.read_bytes())
    pages = range(0, len(data), 4096)
    of_table = [at for at in pages if all(text in data[at : at + 4096] for text in (b"19700101", b"alpha"))]
    at = of_table[len(of_table) // 2]
    data[at : at + 4096] = bytes(4096)
    history.path.write_bytes(data)
    damaged = History(history.path, notes.append, strict=False)
    kept = damaged.records()
    assert 20 < len(kept) < 60
    assert [record for record in records if record in kept] == kept
    assert {records[0].id, records[-1].id} <= {record.id for record in kept}
    assert damaged.benchmarks("heat")[64]["lab"].measured_at == 1.0
    assert notes[0].endswith(f"this run goes on with {len(kept)} records, but its own is not kept")
    assert history.path.read_bytes() == data


def test_history_read_only_keeps_nothing_but_reads(history):
    record, later = a_record(100.0), a_record(200.0)
    history.append(record)
    copy = History(history.path, read_only=True)
    copy.append(later)
    assert copy.records() == [record, later]
    assert history.records() == [record]


def test_history_on_full_disk_continues_in_memory(history, notes):
    first, second = a_record(100.0), a_record(200.0)
    history.append(first)
    pages = history._file.connection.execute("PRAGMA page_count").fetchone()[0]
    history._file.connection.execute(f"PRAGMA max_page_count={pages}")
    big = replace(second, monitor={"text": "x" * 100_000})
    history.append(big)
    assert history.records() == [first, big]
    (note,) = notes
    assert "no room left on its disk" in note
    assert note.endswith("this run goes on with 1 record, but its own is not kept")
    assert History(history.path).records() == [first]


def test_killed_writer_leaves_whole_records(history):
    """A process that appends without end is killed with SIGKILL: what is there is readable."""
    program = f"""
    import sys
    sys.path[:0] = [{os.path.dirname(__file__)!r}, {str(Path(__file__).parents[3])!r}]
    from pathlib import Path
    from test_store import a_record
    from apples.costs.store import History
    while True:
        History(Path({str(history.path)!r})).append(a_record())
    """
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        deadline = time.monotonic() + 30
        while len(history.records()) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert len(history.records()) >= 20


def a_benchmark(ranks, seconds_per_row):
    return Benchmark(ranks=ranks, seconds_per_row=seconds_per_row, startup_s=0.5, bytes_per_row=1e6)


def test_benchmarks_are_kept_by_size_and_machine(history):
    history.put_benchmark("heat nx=64", 32, "xeon", a_benchmark(1, 1e-4), 1.0)
    history.put_benchmark("heat nx=64", 32, "xeon", a_benchmark(2, 2e-4), 2.0)
    history.put_benchmark("heat nx=64", 32, "epyc", a_benchmark(1, 5e-5), 3.0)
    history.put_benchmark("heat nx=64", 64, "xeon", a_benchmark(1, 3e-4), 4.0)
    history.put_benchmark("heat nx=128", 32, "xeon", a_benchmark(1, 4e-4), 5.0)
    tables = history.benchmarks("heat nx=64")
    assert {rows: list(table) for rows, table in tables.items()} == {32: ["epyc", "xeon"], 64: ["xeon"]}
    assert tables[32]["xeon"].measured_at == 2.0
    assert tables[32]["xeon"].benchmarks == (a_benchmark(1, 1e-4), a_benchmark(2, 2e-4))
    assert history.benchmarks("jacobi2d") == {}


def test_benchmark_measured_again_replaces_old_one(history):
    history.put_benchmark("heat", 32, "xeon", a_benchmark(1, 1e-4), 1.0)
    history.put_benchmark("heat", 32, "xeon", a_benchmark(1, 3e-4), 2.0)
    (table,) = history.benchmarks("heat").values()
    assert [b.seconds_per_row for b in table["xeon"].benchmarks] == [3e-4]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, math.nan])
def test_benchmark_without_usable_time_is_missing(history, seconds):
    history.put_benchmark("heat", 32, "xeon", a_benchmark(1, seconds), 1.0)
    assert history.benchmarks("heat") == {32: {}}


def test_damaged_benchmark_is_missing_and_reported(history, notes):
    for ranks in (1, 2):
        history.put_benchmark("heat", 32, "xeon", a_benchmark(ranks, 1e-4), 1.0)
    change(history, "UPDATE benchmarks SET benchmark = ? WHERE ranks = 1", b"junk")
    assert [b.ranks for b in history.benchmarks("heat")[32]["xeon"].benchmarks] == [2]
    assert len(notes) == 1
