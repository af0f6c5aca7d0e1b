"""The check of `conftest.py` that a test leaves the process as it was, for each kind of change."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transcripts import text_of

ROOT = Path(__file__).resolve().parent.parent

# Each change lasts, so the tests after it show that a change is reported once, at the test that made it.
LEAKS = text_of("process_state/leaks.txt")

SHARED_FIXTURE = text_of("process_state/shared_fixture.txt")

#: Test -> what the check names.
REPORTED = {
    "test_scheduling_class": ["scheduling class"],
    "test_niceness": ["niceness"],
    "test_affinity": ["affinity"],
    "test_limits": ["limits"],
    "test_umask": ["Umask"],
    "test_signal_handler": ["SigCgt", "signal handlers"],
    "test_ignored_realtime_signal": ["SigIgn"],
    "test_blocked_signal": ["SigBlk"],
    "test_environment_set": ["environment"],
    "test_environment_removed": ["environment"],
    # The last test of a module also reports what the module changed, for example in a shared fixture.
    "test_end_of_module": [
        "scheduling class",
        "niceness",
        "affinity",
        "limits",
        "Umask",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "signal handlers",
        "environment",
    ],
    "test_last": ["environment"],
}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one processor leaves no other affinity")
def test_conftest_test_changes_process_fails_it(tmp_path):
    (tmp_path / "test_leaks.py").write_text(LEAKS)
    (tmp_path / "test_fixture.py").write_text(SHARED_FIXTURE)
    settings = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", *settings, tmp_path],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "REMOVED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"ERROR at teardown of (\w+) _+\n.*after it: (.*)", run.stdout)
    names = {test: re.findall(r"(?:^|; )([\w ]+):", text) for test, text in errors}
    assert names == REPORTED
    assert run.returncode == 1
