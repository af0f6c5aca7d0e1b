"""The command `mpi-wait` of its installed wheel: real MPI programs, ends and signals, what it leaves behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from apples.monitoring.pagelayout import PROCESS_FIELDS, VERSION, offset
from tests.apples.monitoring.conftest import PROGRAMS

LIMIT_S = 90
#: Prints the directory of the job, and waits to be ended.
WAITING = 'trap "exit 7" TERM; echo "$APPLES_MONITOR"; while :; do sleep 0.05; done'


def run(*command, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


@pytest.fixture
def start(mpi_wait):
    """Start a command with `mpi-wait`; return its process and the first line of its output."""
    processes = []

    def begin(*command):
        # In a group that is not orphaned, as a shell makes it: the kernel ignores SIGTSTP in others.
        process = subprocess.Popen(
            [mpi_wait, "--", *command], stdout=subprocess.PIPE, text=True, process_group=0
        )
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield begin
    for process in processes:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def test_mpi_wait_c_program_leaves_its_cpu(mpi_wait, mpi, compiled):
    command = mpi.command(2, *compiled(mpi, "waits.c"))
    done = run(mpi_wait, "--wait", "block", "--", *command, **mpi.environment)
    assert (done.returncode, done.stderr) == (0, "")
    shares = {call: float(share) for call, share in map(str.split, done.stdout.splitlines())}
    assert len(shares) == 17 + ("Parrived" in shares)
    assert {call for call, share in shares.items() if share > 0.6} <= {"Win_fence"}


@pytest.mark.parametrize("source", ["known.f90", "known_f08.f90", "known.py"])
def test_mpi_wait_other_languages_run(mpi_wait, mpi, compiled, source):
    program = [sys.executable, PROGRAMS / source] if source.endswith(".py") else compiled(mpi, source)
    done = run(mpi_wait, *mpi.command(2, *program, "all", 5, 100), **mpi.environment)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 2)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -USR1 $$"], -signal.SIGUSR1),
        (["sh", "-c", "kill -KILL $$"], -signal.SIGKILL),
        (["./none"], 127),
        (["/etc/passwd"], 126),
    ],
    ids=["code", "signal", "killed", "none", "no program"],
)
def test_mpi_wait_ends_as_its_command(mpi_wait, command, code):
    assert run(mpi_wait, "--", *command).returncode == code


def test_mpi_wait_signal_is_passed_on(start):
    process, directory = start("sh", "-c", WAITING)
    assert os.path.isdir(directory)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 7
    assert not os.path.exists(directory)


def test_mpi_wait_suspended_stops_and_continues(start):
    process, _ = start("python3", "-c", "import time; print(flush=True); time.sleep(60)")
    (child,) = psutil.Process(process.pid).children()
    # A terminal stops both, and the kernel may report the child's stop first.
    for stopped in (child, process):
        stopped.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    assert child.status() == psutil.STATUS_STOPPED
    process.send_signal(signal.SIGCONT)
    process.terminate()
    assert process.wait(LIMIT_S) == -signal.SIGTERM


def test_mpi_wait_killed_leaves_nothing_to_the_next(start, mpi_wait, tmp_path):
    process, directory = start("sh", "-c", WAITING)
    (child,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait(LIMIT_S)
    child.wait(LIMIT_S)
    foreign = tmp_path / f"{os.path.basename(directory)[:-8]}foreign"
    foreign.mkdir()
    (foreign / "file").touch()
    run(mpi_wait, "true", TMPDIR=tmp_path)
    assert (os.path.exists(directory), (foreign / "file").exists()) == (False, True)


def test_mpi_wait_other_hosts_are_named(mpi_wait, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("b1:2\nlocalhost:4 # here\n")
    done = run(mpi_wait, tmp_path / "mpiexec", "-n", 4, "-f", hosts, "-H", "localhost,b2:3", "sh", "-H", "b3")
    assert done.stderr.startswith("mpi-wait: other hosts (b2, b1) need ")


@pytest.mark.parametrize("form", ["sh", "github"])
def test_mpi_wait_env_puts_launchers_before_others(mpi_wait, tmp_path, form):
    launcher = tmp_path / "mpirun"
    launcher.write_text('#!/bin/sh\necho "$APPLES_WAIT $LD_PRELOAD $*"\nexit 5\n')
    launcher.chmod(0o755)
    lines = run(mpi_wait, "--wait", "block", "--env", form, PATH=f"{tmp_path}:{os.environ['PATH']}").stdout
    if form == "sh":
        done = run("sh", "-c", f"PATH='{tmp_path}':$PATH\n{lines}mpirun -n 2 'a b'")
    else:
        done = run("mpirun", "-n", 2, "a b", **dict(line.split("=", 1) for line in lines.splitlines()))
    (library,) = Path(mpi_wait).parents[1].glob("lib/*/site-packages/mpi_wait/*.so")
    assert (done.returncode, done.stdout) == (5, f"block {library} -n 2 a b\n"), done.stderr


def test_mpi_wait_check_runs_two_ranks(mpi_wait, mpi):
    launchers = os.path.dirname(mpi.launcher[0])
    done = run(mpi_wait, "--check", PATH=f"{launchers}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout
    name = {"mpich-wheel": "MPICH", "mpich": "MPICH", "openmpi": "Open MPI"}[mpi.name]
    assert re.search(
        rf"^{name}.* \({launchers}/mpi\S+\): works; a waiting rank takes ", done.stdout, re.MULTILINE
    )


def test_mpi_wait_check_without_launcher_says_so(mpi_wait, tmp_path):
    done = run(mpi_wait, "--check", PATH=tmp_path)
    assert done.returncode == 1
    assert "mpirun in the usual places; load the module of your MPI or set PATH" in done.stdout


def test_page_layout_matches_the_library():
    text = (Path(__file__).resolve().parents[2] / "mpi_wait/mpi_wait/jobdirectory.py").read_text()
    rank, ways = (offset(PROCESS_FIELDS, name) for name in ("rank", "way_permille"))
    assert f'"APPLESMP", {VERSION})' in text
    assert f'"={rank}xII"' in text
    assert f'"={ways}x4II"' in text
