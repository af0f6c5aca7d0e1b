"""Programs of every MPI of this machine: found from the program, started as one job, ended without a rank left."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import stat
import sys
import threading
import venv
from pathlib import Path

import pytest

from apples.errors import LaunchError, NotExecutable, ProgramNotFound
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.launching import mpirun, preflight
from apples.launching.mpirun import HostAccess
from apples.launching.mpis import Family, family_of, linked_mpi
from apples.launching.preflight import files_on_hosts
from apples.launching.termination import GracePeriods
from apples.model.launchrequest import MpiChoice
from apples.monitoring.environment import figures_of
from apples.monitoring.job import JOB, MonitoredRun
from nws.base.scratch import remove_noted
from tests.apples.conftest import MPI_WHEELS

QUICK = GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0)
HERE = HostAccess(grace=QUICK, here=True)
THERE = HostAccess(
    addresses={host: HostAddress(host=host, address=host) for host in ("alpha", "beta")},
    grace=QUICK,
    timeouts=LivenessTimeouts(connect_s=60.0, lost_s=60.0),
)

FAMILIES = {"own": Family.MPICH, "mpich": Family.MPICH, "openmpi": Family.OPEN_MPI}
NO_FAKE_HOSTS = "MPI_Init of Open MPI 5.0.11 fails where one machine stands for several hosts"
#: Of the package index.
FAMILIES |= {"openmpi5": Family.OPEN_MPI, "intelmpi": Family.INTEL}


@pytest.fixture(
    params=[pytest.param(n, marks=[pytest.mark.slow] if n in MPI_WHEELS else []) for n in FAMILIES]
)
def program(request, mpi_programs) -> str:
    return mpi_programs(request.param)


def chosen(request, which: str | None, *arguments: str):
    return dataclasses.replace(request, mpi=MpiChoice(which=which, arguments=arguments))


def run(request, access: HostAccess = HERE):
    return mpirun.run(request, access, lambda line: None)


@pytest.mark.mpi
def test_program_of_any_mpi_runs_as_one_job(program, runs, capfd) -> None:
    outcome = run(runs.request(program, hosts=["localhost"] * 3))
    assert (outcome.ended, outcome.exit_code, outcome.message) == ("finished", 0, "")
    assert sorted(capfd.readouterr().out.splitlines()) == [f"{rank} of 3 " for rank in range(3)]
    assert sorted(path.name for path in runs.directory.iterdir()) == [
        f"status-{r:05d}.json" for r in range(3)
    ]


@pytest.mark.mpi
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_ranks_of_any_mpi_keep_to_the_cpus_of_their_kind(program, runs, capfd) -> None:
    slow, fast, *_ = sorted(os.sched_getaffinity(0))
    request = runs.request(program, hosts=["h.fast", "h.fast", "h.slow"], environment={"GIVEN": "cpu"})
    addresses = {host: HostAddress(host=host, address="localhost") for host in ("h.fast", "h.slow")}
    outcome = run(
        dataclasses.replace(request, cpus={"h.fast": (fast,), "h.slow": (slow,)}),
        dataclasses.replace(HERE, addresses=addresses),
    )
    assert outcome.ended == "finished"
    said = capfd.readouterr().out.splitlines()
    assert sorted(said) == [f"{rank} of 3 cpu {cpu}" for rank, cpu in enumerate((fast, fast, slow))]


@pytest.mark.mpi
def test_cpu_that_this_machine_lacks_ends_the_run(program, runs, capfd) -> None:
    outcome = run(dataclasses.replace(runs.request(program), cpus={"localhost": (1023,)}))
    assert outcome.ended == "failed"
    assert "ranks of localhost cannot be bound to CPU 1023: Invalid argument" in capfd.readouterr().out


@pytest.mark.covering("program", "ending")
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("ending", "code", "reason"),
    [
        (["7"], 7, "ended with exit code 7"),
        (["0"], 1, "ended with exit code 0 before MPI_Finalize"),
        (["256", "abort"], 1, r"aborted the run \(MPI_Abort\) with code (256|0 or a multiple of 256)"),
    ],
)
@pytest.mark.usefixtures("fake_ssh")
# Over ssh the agents report to the same verdict.
@pytest.mark.parametrize(
    "access", [HERE, pytest.param(THERE, marks=pytest.mark.nightly)], ids=["here", "ssh"]
)
def test_program_of_any_mpi_names_the_failed_rank(program, runs, access, ending, code, reason) -> None:
    if not access.here and Path(program).name == "openmpi5":
        pytest.skip(NO_FAKE_HOSTS)
    hosts = ["localhost"] * 3 if access.here else ["alpha", "alpha", "beta"]
    outcome = run(runs.request(program, "600", *ending, hosts=hosts), access)
    assert (outcome.ended, outcome.exit_code) == ("failed", code)
    assert re.fullmatch(f"rank 1 on {hosts[1]} {reason}", outcome.message)
    assert [status.to_blame for status in outcome.statuses] == [False, True, False]


@pytest.mark.covering("program", "number")
@pytest.mark.mpi
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("number", "ended", "message"),
    [
        (signal.SIGHUP, "interrupted", "the run was interrupted by signal HUP"),
        (signal.SIGUSR1, "failed", r"rank \d on localhost was killed by signal 10 \(USR1\)"),
    ],
)
def test_program_of_any_mpi_is_ended_by_signals(
    program, runs, wait_for, capfd, number, ended, message
) -> None:
    # UCX takes HUP, and then prints hundreds of lines; MPICH takes USR1.
    def send() -> None:
        wait_for(lambda: len(figures_of(runs.directory, JOB)) == 2)
        os.kill(os.getpid(), number)

    request = runs.request(program, "600", environment=MonitoredRun().environment(runs.directory))
    sender = threading.Thread(target=send)
    sender.start()
    outcome = run(request)
    sender.join()
    assert (outcome.ended, [status.signal for status in outcome.statuses]) == (ended, [number] * 2)
    assert re.match(message, outcome.message)
    assert all(re.fullmatch("[01] of 2 ", line) for line in capfd.readouterr().out.splitlines())


@pytest.mark.mpi
@pytest.mark.usefixtures("fake_ssh")
def test_program_of_any_mpi_runs_over_ssh(program, runs, capfd) -> None:
    if Path(program).name == "openmpi5":
        pytest.skip(NO_FAKE_HOSTS)
    addresses = {host: HostAddress(host=host, address=host) for host in ("alpha", "beta")}
    addresses["here"] = HostAddress(host="here")
    silence = LivenessTimeouts(connect_s=60.0, lost_s=60.0)
    access = HostAccess(addresses=addresses, grace=QUICK, timeouts=silence)
    chain = ["alpha", "beta", "alpha", "here"]
    outcome = run(runs.request(program, hosts=chain, environment={"GIVEN": "a b"}), access)
    assert (outcome.ended, outcome.message) == ("finished", "")
    assert [status.host for status in outcome.statuses] == chain
    assert sorted(capfd.readouterr().out.splitlines()) == [f"{rank} of 4 a b" for rank in range(4)]


@pytest.mark.mpi
# The death of the others shows as under MPICH, in `test_no_orphans.py`.
@pytest.mark.parametrize(
    "part",
    ["launcher", "agent", "mpiexec"]
    + [pytest.param(part, marks=pytest.mark.nightly) for part in ("wrapper", "supervisor", "program")],
)
def test_killed_process_leaves_no_rank_of_open_mpi(mpi_programs, launch, runs, wait_for, part) -> None:
    launched = launch(mpi_programs("openmpi"), "600")
    for _ in range(2):
        assert " of 2 " in launched.process.stdout.readline()
    parts = ("launcher", "agent", "mpiexec", "wrapper", "supervisor", "program")
    chain = dict(zip(parts, launched.chain().values(), strict=False))
    os.kill(chain[part][-1], signal.SIGKILL)
    wait_for(lambda: not runs.left())
    code, _, err = launched.ended()
    assert code == {"launcher": -signal.SIGKILL, "program": 137}.get(part, 125), err


@pytest.mark.mpi
def test_killed_open_mpi_5_leaves_what_the_directory_names(mpi_programs, launch, runs, wait_for) -> None:
    launched = launch(mpi_programs("openmpi5"), "600")
    for _ in range(2):
        assert " of 2 " in launched.process.stdout.readline()
    (noted,) = runs.directory.glob(".shm-sm_segment.*")
    segments = list(Path("/dev/shm").glob(f"{noted.name.removeprefix('.shm-')}*"))
    assert (len(segments), len(list(runs.directory.glob("ompi.*")))) == (2, 1)
    launched.process.kill()
    wait_for(lambda: not runs.left())
    remove_noted(str(runs.directory))
    assert not any(segment.exists() for segment in segments)


@pytest.mark.mpi
def test_mpi_arguments_reach_mpiexec(mpi_programs, runs, capfd) -> None:
    request = runs.request(mpi_programs("openmpi"))
    assert run(chosen(request, "openmpi", "-x", "GIVEN=passed on")).finished
    assert sorted(capfd.readouterr().out.splitlines()) == ["0 of 2 passed on", "1 of 2 passed on"]


def test_mpi_is_found_from_the_libraries(program) -> None:
    linked = linked_mpi(program, "")
    assert linked is not None
    assert linked.family is FAMILIES[Path(program).name]
    assert linked.path is not None


@pytest.mark.mpi
@pytest.mark.usefixtures("library")
@pytest.mark.usefixtures("fake_ssh")
@pytest.mark.parametrize(
    ("built", "access"),
    [
        pytest.param("own", HERE, id="own-here"),
        pytest.param("own", THERE, id="own-ssh", marks=pytest.mark.nightly),
        pytest.param("openmpi", HERE, id="openmpi-here"),
        # In one of fifteen runs Open MPI 4 says that it cannot start its daemons; the cause is not known.
        pytest.param("openmpi", THERE, id="openmpi-ssh", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize(
    ("arguments", "limit_s", "ended", "code"),
    [
        (("0", "0", "-", "0"), None, "finished", 0),
        (("600", "7", "-", "600"), None, "failed", 7),
        (("0", "0", "-", "600"), 3.0, "time limit", 124),
    ],
)
def test_spawned_ranks_belong_to_the_run(
    mpi_programs, runs, capfd, wait_for, built, access, arguments, limit_s, ended, code
) -> None:
    environment = MonitoredRun().environment(runs.directory)
    request = runs.request(
        *(mpi_programs(built), *arguments),
        hosts=["localhost"] * 2 if access.here else ["alpha", "beta"],
        environment=environment,
        time_limit_s=limit_s,
    )
    outcome = run(request, access)
    assert (outcome.ended, outcome.exit_code, len(outcome.statuses)) == (ended, code, 2)
    assert [page.ranks for page in figures_of(runs.directory, JOB)] == [2, 2]
    lines = capfd.readouterr().out.split("\n")
    assert ended != "finished" or "0 of 1 " in lines
    assert not any("page" in line for line in lines)
    wait_for(lambda: not runs.left())


@pytest.mark.parametrize("way", ["pth", "path", "system", "env"])
def test_mpi_of_python_is_that_which_it_imports(mpi_programs, tmp_path, monkeypatch, way) -> None:
    venv.create(tmp_path / "venv", system_site_packages=way == "system")
    interpreter, package = tmp_path / "venv" / "bin" / "python", tmp_path / "packages" / "mpi4py"
    package.mkdir(parents=True)
    shutil.copy(mpi_programs("openmpi"), package / "MPI.cpython-311.so")
    script = tmp_path / "script"
    script.write_text(f"#!/usr/bin/env -S A=1 {interpreter} -u\n")
    (packages,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    if way in ("path", "env"):
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
    elif way == "pth":
        (packages / "other.pth").write_text(f"{package.parent}\n")
    else:
        monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
        users = tmp_path / "user" / packages.relative_to(tmp_path / "venv")
        users.parent.mkdir(parents=True)
        users.symlink_to(package.parent)
    linked = linked_mpi(str(script if way == "env" else interpreter), "")
    assert linked is not None
    assert linked.family is Family.OPEN_MPI


@pytest.mark.mpi
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("before", [["nice", "-n", "5"], ["./script"]])
def test_mpi_behind_another_program_is_learnt(mpi_programs, runs, tmp_path, monkeypatch, before) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script").write_text('#!/bin/sh\nexec "$@"\n')
    Path("script").chmod(0o755)
    environment = MonitoredRun().environment(runs.directory)
    request = runs.request(*before, mpi_programs("openmpi"), environment=environment)
    for learnt, ranks in ((True, 1), (False, 2)):
        assert run(request).finished
        (page, *_) = figures_of(runs.directory, JOB)
        assert page.ranks == ranks
        assert preflight.learn_mpi(request, page.mpi) == learnt
        assert preflight.find_mpi(request).family is Family.OPEN_MPI


@pytest.mark.parametrize(
    ("built", "which", "legal"), [("openmpi", "mpich", "--mpi openmpi"), ("own", "openmpi", "--mpi mpich")]
)
def test_other_mpi_than_the_programs_is_an_error(mpi_programs, runs, built, which, legal) -> None:
    request = chosen(runs.request(mpi_programs(built)), which)
    with pytest.raises(LaunchError, match=f"--mpi {which}, but .* loads libmpi.* use {legal}"):
        preflight.find_mpi(request)


def test_path_of_another_mpiexec_is_an_error(mpi_programs, runs) -> None:
    own = str(Path(sys.executable).with_name("mpiexec"))
    with pytest.raises(LaunchError, match=r"mpiexec is of MPICH, but .*loads libmpi\.so"):
        preflight.find_mpi(chosen(runs.request(mpi_programs("openmpi")), own))


def test_program_needs_itself_and_the_daemon_of_its_mpi(mpi_programs) -> None:
    openmpi, mpich = mpi_programs("openmpi"), mpi_programs("mpich")
    assert files_on_hosts(openmpi, None) == (openmpi, "/usr/bin/orted")
    assert files_on_hosts(mpich, None) == (mpich, "/usr/bin/hydra_pmi_proxy")
    assert files_on_hosts(openmpi, "mpich") == (openmpi,)
    assert files_on_hosts("no-such-program", None) == ()
    assert files_on_hosts(sys.executable, None) is None


def executable(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("neighbour", "family"),
    [
        ("ompirun_wrapper", Family.OPEN_MPI),
        ("hydra_pmi_proxy", Family.MPICH),
        ("hydra_bstrap_proxy", Family.INTEL),
        ("other", None),
    ],
)
def test_family_of_an_mpiexec_shows_beside_it(tmp_path, neighbour, family) -> None:
    mpiexec = executable(tmp_path / "bin" / "mpiexec")
    for name in {neighbour, "hydra_pmi_proxy"} if family is Family.INTEL else {neighbour}:
        executable(tmp_path / "bin" / name)
    assert family_of(mpiexec) is family


def test_wrong_choices_of_an_mpi_are_explained(runs, tmp_path) -> None:
    request = runs.request("true")
    for which, error, text in (
        ("lam", LaunchError, "--mpi lam: legal are mpich, openmpi, intelmpi, or the path of an mpiexec"),
        (f"{tmp_path}/nothing", ProgramNotFound, "no such file"),
        (str(tmp_path), ProgramNotFound, "bin/mpiexec: no such file"),
        (executable(tmp_path / "other"), LaunchError, "is of no known MPI"),
    ):
        with pytest.raises(error, match=text):
            preflight.find_mpi(chosen(request, which))
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(NotExecutable, match="may not be executed"):
        preflight.find_mpi(chosen(request, str(tmp_path / "other")))


def test_missing_mpiexec_names_the_package(runs, monkeypatch, tmp_path) -> None:
    executable(tmp_path / "program")
    monkeypatch.setenv("PATH", str(tmp_path))
    request = chosen(runs.request(str(tmp_path / "program")), "openmpi")
    with pytest.raises(
        ProgramNotFound, match=re.escape("neither beside its library nor on PATH; install it")
    ):
        preflight.find_mpi(request)
