"""What a job starts with: names, directories, variables; and what is left of it."""

import os

import pytest

from apples.coscheduling.events import Wait
from apples.errors import ConfigError, MonitorError
from apples.monitoring import environment
from apples.monitoring.environment import (
    monitor_environment,
    page_directory,
    page_paths,
    remove_pages,
)
from apples.monitoring.job import MonitoredJob
from apples.monitoring.names import check_job


@pytest.fixture(autouse=True)
def no_compiler_needed(monkeypatch):
    monkeypatch.setattr(environment, "monitor_library", lambda: "/built/monitor.so")


@pytest.mark.parametrize("name", ["a", "run-12.b_C", "x" * 64])
def test_legal_names_of_jobs(name):
    assert check_job(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 65, "a\n"])
def test_other_names_are_refused(name):
    with pytest.raises(ConfigError, match="expected 1 to 64 letters, digits"):
        check_job(name)


def test_variables_of_a_job(tmp_path):
    made = monitor_environment(tmp_path, "job", wait=Wait.SPIN_BLOCK, spin_s=250e-6, base={})
    assert made == {
        "LD_PRELOAD": "/built/monitor.so",
        "APPLES_MONITOR": str(tmp_path),
        "APPLES_JOB": "job",
        "APPLES_WAIT": "block",
        "APPLES_SPIN_US": "250",
    }
    assert monitor_environment(tmp_path, "job", wait=Wait.POLL, base={})["APPLES_WAIT"] == "poll"
    assert "APPLES_WAIT" not in monitor_environment(tmp_path, "job", base={})


def test_what_the_user_preloads_comes_first(tmp_path):
    made = monitor_environment(tmp_path, "job", base={"LD_PRELOAD": "/usr/lib/theirs.so"})
    assert made["LD_PRELOAD"] == "/usr/lib/theirs.so:/built/monitor.so"


def test_page_directory_is_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("apples.monitoring.environment.SHARED_MEMORY", str(tmp_path))
    with page_directory() as made:
        assert (made.parent, os.stat(made).st_mode & 0o777) == (tmp_path, 0o700)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("apples.monitoring.environment.SHARED_MEMORY", str(tmp_path / "none"))
    with pytest.raises(MonitorError, match="no directory for the monitor's pages"), page_directory():
        pass


def test_pages_are_found_in_the_order_of_ranks(tmp_path):
    for name in ("job.10", "job.9", "job.bell", "job.1x", "other.0", "job.sub.3"):
        (tmp_path / name).write_text("")
    assert [path.name for path in page_paths(tmp_path, "job")] == ["job.9", "job.10"]
    with pytest.raises(MonitorError, match="cannot be looked for: No such file"):
        page_paths(tmp_path / "gone", "job")


def test_job_leaves_nothing_behind_and_touches_nothing_else(tmp_path):
    tmp_path.chmod(0o700)
    with MonitoredJob("job", directory=tmp_path, base={}) as job:
        for name in ("job.0", "job.1", "job.bell", "job.rope", "other.0", "job.txt"):
            (tmp_path / name).write_text("")
        assert job.figures() == []
        assert job.document()["ranks"] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.txt", "other.0"]
    remove_pages(tmp_path, "job")


def test_jobs_get_names_of_their_own(tmp_path):
    tmp_path.chmod(0o700)
    names = {MonitoredJob(directory=tmp_path, base={}).name for _ in range(20)}
    assert len(names) == 20
