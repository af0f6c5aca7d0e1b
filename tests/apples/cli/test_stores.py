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


#: Part of the message for each damage.
MESSAGES = {
    "foreign": "not an SQLite database; move it away",
    "half": "damaged",
    "huge": "it has more than 67108864 bytes",
    "json": "is not readable JSON",
    "newer": "written by a newer release",
    "pipe": "it is no regular file",
    "link": "set APPLES_STATE to another directory",
    "device": "it is no regular file",
}

#: Benchmarks of the mock grid, which a run without a history measures again, take no time.
MOCK = ("64", "--mock", "--app", "heat")


@pytest.mark.parametrize(
    ("damages", "options"),
    [
        ({"weather.db": "foreign", "drained.json": "json"}, ()),
        ({"weather.db": "half", "drained.json": "newer"}, ("--dry-run",)),
        ({"weather.db": "pipe", "drained.json": "device"}, ("--dry-run",)),
        ({"weather.db": "device", "drained.json": "pipe"}, ("--dry-run",)),
        ({"drained.json": "huge"}, ("--dry-run",)),
        *(({"history.db": damage}, MOCK) for damage in ("foreign", "half")),
        *(({"history.db": damage}, (*MOCK, "--dry-run")) for damage in ("pipe", "device", "link")),
    ],
)
def test_run_damaged_store_goes_on_without_it(run, known, small, damages, options):
    sizes = {}
    for name, damage in damages.items():
        path = known / name
        path.touch()
        DAMAGES[damage](path)
        sizes[path] = path.lstat().st_size
    done = run("apples-run", *(options if "--mock" in options else (*small, *options)), state=known)
    assert done.code == 0, done.err
    for path, size in sizes.items():
        (line,) = {line for line in done.err.splitlines() if str(path) in line}
        assert MESSAGES[damages[path.name]] in line
        assert line.endswith(GOES_ON[path.name])
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
