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


def only(directory):
    (path,) = directory.iterdir()
    return path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text("sunny, later rain\n" * 500), "not an SQLite database; move it away"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    ],
    ids=["foreign", "half"],
)
def test_a_weather_file_that_is_none(refused, known, damage, message):
    path = known / "weather.db"
    damage(path)
    size = path.stat().st_size
    said = refused(known)
    assert said.startswith(f"apples-run: {path}: ")
    assert message in said
    assert path.stat().st_size == size, "a file that is not ours is not touched"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"format": "apples-run-record", "version": 1, "rec',
            "half-written or damaged; move it away or remove it",
        ),
        ('{"format": "apples-run-record", "version": 9}', "written by a newer release"),
        ('{"format": "apples-run-record", "version": 1, "record": {"id": 3}}', "is not a whole record"),
    ],
)
def test_a_history_file_that_is_none(run, refused, known, content, message):
    path = only(known / "history")
    path.write_text(content)
    said = refused(known)
    assert said.startswith(f"apples-run: {path}: ")
    assert message in said
    assert path.read_text() == content
    shown = run("apples", "history", state=known)
    assert (shown.code, shown.out) == (4, "")
    assert shown.err.startswith(f"apples: {path}: ")


def test_benchmarks_that_are_none(refused, known):
    # One file, or two if the plan had slabs of another size than equal ones.
    paths = list((known / "benchmarks").iterdir())
    for path in paths:
        path.write_text('{"format": "apples-ben')
    said = refused(known)
    assert said.startswith(tuple(f"apples-run: {path}: " for path in paths))
    assert "remove it (it will be measured again by apples calibrate)" in said


def test_a_history_that_cannot_be_written_shows_before_the_run(refused, known):
    for path in (known / "history").iterdir():
        path.unlink()
    (known / "history").rmdir()
    (known / "history").symlink_to("/proc/nowhere/at/all")
    assert "APPLES_STATE" in refused(known)


def test_a_state_directory_that_is_a_file(refused, tmp_path):
    state = tmp_path / "file"
    state.write_text("mine")
    said = refused(state)
    assert said.startswith(f"apples-run: {state}/weather.db: ")
    assert "set APPLES_STATE to a directory you may write to" in said
    assert state.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_directory_that_may_not_be_written(refused, known):
    known.chmod(0o555)
    assert "APPLES_STATE" in refused(known)


def test_a_state_directory_on_a_file_system_that_takes_nothing(refused):
    assert "set APPLES_STATE to a directory you may write to" in refused("/proc/apples-state")
