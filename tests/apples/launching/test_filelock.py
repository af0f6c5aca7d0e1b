"""One run at a time at a file: who is second is told who is first, and the dead hold nothing."""

import os
import signal
import subprocess
import sys

import pytest

from apples.errors import LaunchError
from apples.launching import mpirun
from apples.launching.filelock import locked
from apples.launching.mpirun import HostAccess
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from tests.transcripts import text_of

HOLDER = text_of("apples/launching/filelock_holder.txt")


@pytest.fixture
def holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_second_is_told_who_is_first(tmp_path, holder):
    with (
        pytest.raises(LaunchError, match=rf"^checkpoint x is in use by process {holder.pid} of .* since 20"),
        locked(tmp_path / "lock", "checkpoint x"),
    ):
        pass
    assert (tmp_path / "lock").exists()


def test_killed_holder_holds_nothing(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with locked(tmp_path / "lock", "checkpoint x"):
        assert str(os.getpid()) in (tmp_path / "lock").read_text()
    assert not (tmp_path / "lock").exists()


def test_place_where_nothing_can_be_written(tmp_path):
    with (
        pytest.raises(LaunchError, match=r"^checkpoint x cannot be locked: .*none/lock: No such file"),
        locked(tmp_path / "none" / "lock", "checkpoint x"),
    ):
        pass


def test_after_an_error_it_is_free_again(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "lock", "checkpoint x"):
        raise ZeroDivisionError
    with locked(tmp_path / "lock", "checkpoint x"):
        pass


def test_run_directory_is_for_one_launch_at_a_time(tmp_path):
    request = LaunchRequest(
        plan=unplanned(["localhost"], scheduler="test", application="true"),
        workload=Workload(application="true", size=1),
        command=("true",),
        run_dir=tmp_path,
    )
    with (
        locked(tmp_path / ".in-use", "it"),
        pytest.raises(
            LaunchError, match=rf"^run directory {tmp_path} is in use by process {os.getpid()} of "
        ),
    ):
        mpirun.run(request, HostAccess(here=True), print)
    assert mpirun.run(request, HostAccess(here=True), print).finished
