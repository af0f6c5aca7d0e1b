"""Stores that cannot be used: named before anything long, with what to do, and never made worse."""

import os

import pytest


@pytest.fixture
def refused(run, small):
    """Runs `apples-run` over a state and gives the last line, after checks that hold for every refusal."""

    def check(state, code=4):
        ended = run("apples-run", *small, state=state)
        assert ended.code == code, ended.err
        assert "running heat" not in ended.err
        assert ended.out == ""
        return ended.err.splitlines()[-1]

    return check


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text("sunny, later rain\n" * 500), "not an SQLite database; move it away"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    ],
    ids=["foreign", "half"],
)
def test_weather_file_that_is_none(refused, known, damage, message):
    path = known / "weather.db"
    damage(path)
    size = path.stat().st_size
    said = refused(known)
    assert said.startswith(f"apples-run: {path}: ")
    assert message in said
    assert path.stat().st_size == size, "a file that is not ours is not touched"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text("kept runs\n" * 500), "not an SQLite database; move it away"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    ],
    ids=["foreign", "half"],
)
def test_run_damaged_history_is_refused(run, refused, known, damage, message):
    path = known / "history.db"
    damage(path)
    said = refused(known)
    assert said.startswith(f"apples-run: {path}: ")
    assert message in said
    shown = run("apples", "history", state=known)
    assert (shown.code, shown.out) == (4, "")
    assert shown.err.startswith(f"apples: {path}: ")


def test_run_unwritable_history_runs_without_record(run, known, small):
    (known / "history.db").unlink()
    (known / "history.db").symlink_to("/proc/nowhere/at/all")
    done = run("apples-run", *small, state=known)
    assert done.code == 0, done.err
    assert "set APPLES_STATE to another directory; this run is planned, but leaves no record" in done.err


def test_state_directory_that_is_a_file(refused, tmp_path):
    state = tmp_path / "file"
    state.write_text("mine")
    said = refused(state)
    assert said.startswith(f"apples-run: {state}/weather.db: ")
    assert "set APPLES_STATE to a directory you may write to" in said
    assert state.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_state_directory_that_may_not_be_written(refused, known):
    known.chmod(0o555)
    assert "APPLES_STATE" in refused(known)


def test_state_directory_on_a_file_system_that_takes_nothing(refused):
    assert "set APPLES_STATE to a directory you may write to" in refused("/proc/apples-state")
