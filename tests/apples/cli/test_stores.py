"""Stores that cannot be used cost themselves, not the run: named with what to do, and never made worse."""

import os

import pytest

DAMAGES = {
    "foreign": lambda path: path.write_text("sunny, later rain\n" * 500),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "huge": lambda path: os.truncate(path, 3 << 30),
    "json": lambda path: path.write_text('{"hosts": ['),
    "newer": lambda path: path.write_text('{"format": "apples-drained", "version": 9}'),
    "pipe": lambda path: (path.unlink(missing_ok=True), os.mkfifo(path)),
    "link": lambda path: (path.unlink(missing_ok=True), path.symlink_to("/proc/nowhere/at/all")),
    "device": lambda path: (path.unlink(missing_ok=True), path.symlink_to("/dev/zero")),
}

GOES_ON = {
    "weather.db": "planning with what is measured now, which is not kept",
    "history.db": "this run is planned, but leaves no record",
    "drained.json": "going on without it",
}


#: Benchmarks of the mock grid, which a run without a history measures again, take no time.
MOCK = ("64", "--mock", "--app", "heat")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        *((n, "foreign", "not an SQLite database; move it away") for n in ("weather.db", "history.db")),
        *((n, "half", "damaged") for n in ("weather.db", "history.db")),
        *((n, d, "it is no regular file") for n in GOES_ON for d in ("pipe", "device")),
        ("history.db", "link", "set APPLES_STATE to another directory"),
        ("drained.json", "json", "is not readable JSON"),
        ("drained.json", "newer", "written by a newer release"),
        ("drained.json", "huge", "it has more than 67108864 bytes"),
    ],
)
def test_run_damaged_store_goes_on_without_it(run, known, small, name, damage, message):
    path = known / name
    path.touch()
    DAMAGES[damage](path)
    size = path.lstat().st_size
    done = run("apples-run", *(MOCK if name == "history.db" else small), state=known)
    assert done.code == 0, done.err
    (line,) = {line for line in done.err.splitlines() if str(path) in line}
    assert message in line
    assert line.endswith(GOES_ON[name])
    assert path.lstat().st_size == size


def test_history_damaged_file_is_refused(run, known):
    DAMAGES["foreign"](known / "history.db")
    shown = run("apples", "history", state=known)
    assert (shown.code, shown.out) == (4, "")
    assert shown.err.startswith(f"apples: {known}/history.db: not an SQLite database; move it away")


@pytest.mark.parametrize(
    "options",
    [
        # With attempts it says all of this, and more.
        pytest.param([], marks=pytest.mark.nightly),
        ["--attempts", "2"],
        pytest.param(
            ["--attempts", "2", "read-only"],
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere"),
        ),
    ],
)
def test_run_unwritable_state_runs_without_keeping(run, known, small, options):
    state = known if "read-only" in options else "/proc/apples-state"
    known.chmod(0o555 if "read-only" in options else 0o700)
    done = run("apples-run", *small, *[o for o in options if o != "read-only"], state=state)
    assert done.code == 0, done.err
    assert "this run is planned, but leaves no record" in done.err
    assert "which is not kept" in done.err
    assert ("without checkpoints: " in done.err) == bool(options)


def test_state_directory_that_is_a_file_stays(run, tmp_path):
    state = tmp_path / "file"
    state.write_text("mine")
    done = run("apples-run", *MOCK, state=state)
    assert done.code == 0, done.err
    assert state.read_text() == "mine"


def test_run_rejected_option_leaves_no_state(run, small, tmp_path):
    refused = run("apples-run", *small, "-n", "5", "--max-ranks", "3", "--checkpoint", "auto")
    assert refused.code == 2
    assert not (tmp_path / "apples-state").exists()
