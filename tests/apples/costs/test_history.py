"""History: every run leaves a record, and nothing that happens to the directory goes unnoticed."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from apples.errors import HistoryError
from apples.learning.history import FORMAT, History, new_id
from apples.model import jsonstore
from apples.model.plan import Assignment, LeftOut, Outcome, Plan, RankObservation, RankStatus, Record
from nws.base.sealed import unseal


def a_record(started_at=1.7e9, key="heat", observed_s=2.5):
    assignment = Assignment(
        rank=0, host="alpha", slot=0, rows=64, compute_s=2.0, communicate_s=0.1, overhead_s=0.3
    )
    plan = Plan(
        scheduler="apples",
        application="heat",
        size=64,
        model="exchange",
        assignments=(assignment,),
        predicted_s=2.4,
        low_s=2.0,
        high_s=math.inf,
        taken=(("alpha", "fastest"),),
        left_out=(LeftOut(host="beta", reason="busy"),),
    )
    observation = RankObservation(
        rank=0,
        host="alpha",
        rows=64,
        iterations=500,
        setup_s=0.1,
        compute_s=2.1,
        communicate_s=0.1,
        wait_s=0.0,
        total_s=2.4,
    )
    outcome = Outcome(
        ended="finished",
        exit_code=0,
        observed_s=observed_s,
        statuses=(RankStatus(rank=0, host="alpha", exit_code=0, pid=7),),
        observations=(observation,),
    )
    return Record(
        id=new_id(started_at),
        started_at=started_at,
        world="mpiexec",
        key=key,
        plan=plan,
        outcome=outcome,
        snapshot={"hosts": [{"host": "alpha", "cpu_type": "lab"}]},
        workload={"iterations": 500},
        options={"settings": {"nx": "64"}},
    )


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history")


def test_a_record_comes_back_as_it_was(history):
    record = a_record()
    path = history.append(record)
    assert history.records() == [record]
    assert history.get(record.id) == record
    assert path.name.startswith(record.id)


def test_a_run_that_never_started_is_a_record_too(history):
    record = replace(a_record(), outcome=None)
    history.append(record)
    assert history.records() == [record]


def test_a_history_that_does_not_exist_yet_is_empty(history):
    assert history.records() == []
    assert not history.directory.exists()


def test_records_come_by_time_and_by_key(history):
    old, new, other = a_record(100.0), a_record(200.0), a_record(150.0, key="jacobi2d")
    for record in (new, other, old):
        history.append(record)
    assert history.records() == [old, other, new]
    assert history.records("heat") == [old, new]
    assert history.records("heat", newest=1) == [new]
    assert history.records(newest=2) == [other, new]
    assert history.records(newest=0) == []


def test_ids_are_unique_and_sort_by_time():
    ids = [new_id(1.7e9 + i * 1e-3) for i in range(100)]
    assert ids == sorted(ids)
    assert len({new_id(1.7e9) for _ in range(100)}) == 100


def test_every_bad_file_is_named_with_what_to_do(history):
    history.append(a_record())
    whole = unseal(next(history.directory.glob("*.json")).read_bytes())
    bad = {
        "a.json": ("", "is empty: half-written or damaged"),
        "b.json": ('{"format": "app', "is not readable JSON"),
        "c.json": ("[1, 2]", "is not an apples-run-record file"),
        "d.json": ('{"format": "apples-benchmarks", "version": 1}', "is not an apples-run-record file"),
        "e.json": (json.dumps({"format": FORMAT.name}), "has no version (got None)"),
        "f.json": (
            json.dumps(whole | {"version": 2}),
            "is of version 2, written by a newer release; this one reads up to 1",
        ),
        "g.json": (json.dumps({"format": FORMAT.name, "version": 1}), "is not a whole record: record: "),
        "h.json": (
            json.dumps(whole | {"record": {"id": "x"}}),
            "is not a whole record: started_at: field required and 4 more",
        ),
    }
    for name, part, said in (
        ("i.json", {"snapshot": {"hosts": {"alpha": 1}}}, "snapshot.hosts: should be a list"),
        ("j.json", {"snapshot": {"hosts": [5]}}, "snapshot.hosts.0.host: should be text"),
        ("k.json", {"snapshot": {"hosts": [{"host": "alpha"}]}}, "snapshot.hosts.0.cpu_type: should be text"),
        (
            "l.json",
            {"workload": {"iterations": "many"}},
            "workload.iterations: should be a number, 0 or more",
        ),
    ):
        text = json.dumps(whole | {"record": whole["record"] | part})
        bad[name] = (text, f"is not a whole record: record.{said}")
    for name, (text, _) in bad.items():
        (history.directory / name).write_text(text)
    with pytest.raises(HistoryError) as caught:
        history.records()
    assert caught.value.exit_code == 4
    lines = str(caught.value).splitlines()
    assert len(lines) == len(bad)
    for line, (name, (_, said)) in zip(lines, bad.items(), strict=True):
        assert line.startswith(f"{history.directory / name}: {said}")
        assert "remove it" in line or "upgrade" in line


def test_a_damaged_record_of_another_key_does_not_stop_a_run(history):
    record = a_record()
    history.append(record)
    history.append(a_record(key="other")).write_text("{")
    assert history.records("heat") == [record]


def test_a_renamed_record_is_still_a_record(history):
    record = a_record(100.0)
    history.append(a_record(50.0))
    history.append(record).rename(history.directory / "a-friend-sent-this.json")
    assert history.records()[-1] == record


def test_other_peoples_files_beside_the_records_are_let_alone(history):
    history.append(a_record())
    (history.directory / "notes.txt").write_text("mine")
    (history.directory / ".DS_Store").write_text("x")
    assert len(history.records()) == 1


def test_a_run_that_is_not_there_says_how_to_list_them(history):
    with pytest.raises(HistoryError, match="no run 'yesterday'; `apples history` lists the runs"):
        history.get("yesterday")


def test_a_directory_that_cannot_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        HistoryError, match=r"cannot be written: Not a directory; make room .* set APPLES_STATE"
    ):
        History(tmp_path / "file" / "history").append(a_record())


def test_a_history_that_is_a_file_says_so(tmp_path):
    (tmp_path / "history").write_text("in the way")
    with pytest.raises(HistoryError, match="cannot be read: Not a directory; give the right"):
        History(tmp_path / "history").records()


def test_an_id_that_sorts_nowhere_is_refused(history):
    with pytest.raises(HistoryError, match="'run 1' is no id of a run; ids come from"):
        history.append(replace(a_record(), id="run 1"))


def test_a_full_disk_leaves_no_half_a_record(history, monkeypatch):
    history.append(a_record(100.0))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jsonstore.os, "fsync", full)
    with pytest.raises(HistoryError, match="cannot be written: No space left on device; make room"):
        history.append(a_record(200.0))
    assert [p.suffix for p in history.directory.iterdir()] == [".json"]
    assert len(history.records()) == 1


def test_an_interrupt_while_writing_leaves_the_history_readable(history, monkeypatch):
    history.append(a_record(100.0))

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(jsonstore.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        history.append(a_record(200.0))
    assert [p.suffix for p in history.directory.iterdir()] == [".json"]
    assert len(history.records()) == 1


def test_a_killed_writer_leaves_whole_records_only(history):
    """A process that appends without end is killed with SIGKILL: what is there is readable."""
    program = f"""
    import sys
    sys.path.insert(0, {os.path.dirname(__file__)!r})
    from pathlib import Path
    from test_history import a_record
    from apples.learning.history import History
    while True:
        History(Path({str(history.directory)!r})).append(a_record())
    """
    writer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)])
    try:
        deadline = time.monotonic() + 30
        while len(jsonstore.files(history.directory)) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert len(history.records()) >= 20


def test_what_killed_writers_left_is_swept_up_once_it_is_old(history):
    history.append(a_record(100.0))
    old, young = (history.directory / f".{name}.json.0.whole-tmp" for name in ("old", "young"))
    for path in (old, young):
        path.write_text("{")
    os.utime(old, (0, 0))
    history.append(a_record(200.0))
    assert not old.exists()
    assert young.exists()
    assert len(history.records()) == 2


def test_changed_value_of_a_record_is_refused(history):
    path = history.append(a_record())
    path.write_text(path.read_text().replace('"rows": 64', '"rows": 65'))
    with pytest.raises(HistoryError, match="its checksum does not match its content"):
        history.records()
