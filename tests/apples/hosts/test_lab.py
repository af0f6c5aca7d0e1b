"""Runs over real hosts: the unfit are left out, the answer is right, and no way of losing a host leaves anything."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testbed.host import ssh_config

from tests.transcripts import text_of

BIN = Path(sys.executable).parent
LAUNCH = Path(__file__).with_name("launch_in_lab.py")
MIXED = Path(__file__).parents[1] / "monitoring" / "programs" / "mixed.c"
HEAT = ("--app", "heat", "-s", "nx=16", "-s", "ny=16", "-s", "iterations=20")
FORKED = ("unshare --net", "sshd_config", "/init", "sleep 1")


def wait_for(what, within_s=30.0, complaint=lambda: "waited in vain"):
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, complaint()
        time.sleep(0.05)
    return found


def left(lab):
    """What runs on hosts besides the hosts themselves."""
    found = {h.name: lab.processes(h.name).values() for h in lab.spec.hosts}
    return [
        (host, command)
        for host, commands in found.items()
        for command in commands
        if command and not any(word in command for word in FORKED)
    ]


@pytest.fixture(autouse=True)
def nothing_is_left(lab):
    yield
    wait_for(lambda: not left(lab), complaint=lambda: left(lab))


@pytest.mark.nightly
def test_fit_run_and_the_others_are_told(lab, state_of_its_own):
    lab.crash("a3")
    try:
        pool = [h.name for h in lab.spec.hosts if h.name != "own-files"]
        command = [
            "apples-run",
            "12",
            *HEAT,
            "--launcher",
            "ssh",
            "-H",
            ",".join(f"{n}:1" for n in pool),
            "-n",
            "2",
        ]
        result = lab.run("a1", str(BIN / command[0]), *command[1:], "--json")
    finally:
        lab.start("a3")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert sorted(h["host"] for h in document["hosts"]) == ["a1", "a2"]
    reasons = {entry["host"]: entry["reason"] for entry in document["left_out"]}
    assert reasons.pop("a3").startswith(("it does not answer", "it cannot be reached"))
    assert reasons.pop("locked").startswith("it refuses our key")
    assert reasons.pop("stranger").startswith("it has a host key that is not known here")
    assert reasons.pop("debian").startswith("it resolves its own name debian to 127.0.1.1")
    assert reasons.pop("bare").startswith("it has no apples-grid")
    if "late" in pool:
        assert reasons.pop("late").startswith("it has a clock 3600 s behind ours")
    assert reasons == {}
    assert sum(h["rows"] for h in document["hosts"]) == 12
    assert [h["exit_code"] for h in document["hosts"]] == [0, 0]
    alone = ["stencil-app", "heat", "--size", "12", "--nx", "16", "--ny", "16", "--iterations", "20"]
    said = subprocess.run([BIN / alone[0], *alone[1:]], capture_output=True, text=True, check=True).stdout
    # one line of the program, and the same answer as on one machine
    assert said.strip() in result.stderr.splitlines()


@pytest.mark.nightly
def test_jump_host_is_no_obstacle_unless_ranks_cannot_connect(lab, tmp_path):
    (tmp_path / "config").write_text(f"Host a3\n  ProxyJump a2\n{ssh_config()}")
    jumping = (
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount --bind {tmp_path}/config /etc/ssh/ssh_config; exec "$@"',
        "sh",
    )
    address = lab.run("a1", "hostname", "-i").stdout.strip()
    lab.run("a3", "ip", "route", "add", "blackhole", f"{address}/32")
    try:
        result = lab.run("a1", *jumping, str(BIN / "apples"), "probe", "a1", "a3", "--no-speed", "--json")
    finally:
        lab.run("a3", "ip", "route", "del", "blackhole", f"{address}/32")
    hosts = {host["host"]: host for host in json.loads(result.stdout)["hosts"]}
    assert (result.returncode, hosts["a1"]["problems"]) == (1, [])
    (problem,) = hosts["a3"]["problems"]
    assert "cannot connect to this machine" in problem
    assert "a jump host (ProxyJump) passes on ssh only" in problem
    run = (str(BIN / "apples-run"), "12", *HEAT, "--launcher", "ssh", "-H", "a1:1,a3:1", "-n", "2", "--json")
    result = lab.run("a1", *jumping, *run)
    assert result.returncode == 0, result.stderr
    assert [host["exit_code"] for host in json.loads(result.stdout)["hosts"]] == [0, 0]


@pytest.mark.nightly
def test_monitor_and_waits_reach_hosts_without_the_run_directory(lab, state_of_its_own):
    """The private /var/tmp of `own-files` hides the launcher's run directory, with the library in it."""
    run = [*("apples-run", "12"), *HEAT, *("--launcher", "ssh", "-H", "a1:1,own-files:1", "-n", "2")]
    words = ("env", "TMPDIR=/var/tmp", str(BIN / run[0]), *run[1:], "--wait", "block", "--monitor", "--json")
    result = lab.run("a1", *words)
    assert result.returncode == 0, result.stderr
    monitor = json.loads(result.stdout)["monitor"]
    assert monitor["missing"] == []
    assert {entry["host"] for entry in monitor["ranks"]} == {"a1", "own-files"}
    assert all(entry["finalized"] and entry["calls"] > 0 for entry in monitor["ranks"])
    assert monitor["observation"]["ranks"][0]["neighbours"] != []


@pytest.fixture
def launch(lab):
    """Starts a launch on the first host of a chain; what still runs at the end is killed."""
    started = []

    def make(*arguments, **more):
        started.append(launched(lab, *arguments, **more))
        return started[-1]

    yield make
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.communicate()


def launched(lab, chain, *command, lost_s=60.0):
    words = [sys.executable, str(LAUNCH), chain, "a1", str(lost_s), *command]
    return subprocess.Popen(
        lab.command("a1", words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def outcome(process):
    out, err = process.communicate(timeout=60)
    assert out.strip(), err
    *said, ended = out.splitlines()
    # Open MPI 4's mpirun says so where the ssh that it started has set its process group first; nothing is wrong then.
    return json.loads(ended), [line for line in said if "plm:rsh: Warning: setpgid(" not in line]


@pytest.mark.mpi
def test_intel_mpi_uneven_counts_compute_over_two_hosts(lab, launch, mpi_programs):
    chain, program = "a2,a1,a2", mpi_programs("intelmpi", text_of("apples/hosts/where.c"), "where")
    ended, said = outcome(launch(chain, program))
    assert (ended["ended"], ended["message"]) == ("finished", "")
    assert sorted(said) == ["0 on a2 of 3", "1 on a1 of 3", "2 on a2 of 3"]
    ended, _ = outcome(launch(chain, program, "abort"))
    assert (ended["exit_code"], ended["message"]) == (
        5,
        "rank 2 on a2 aborted the run (MPI_Abort) with code 5",
    )


def test_hosts_that_share_no_directory_send_back_what_ranks_left(lab, launch):
    program = "hostname > RUN_DIR/rank-$PMI_RANK.txt; echo from $(hostname)"
    ended, said = outcome(launch("a1,own-files,a2", "sh", "-c", program))
    assert (ended["ended"], ended["message"]) == ("finished", "")
    assert [(s["host"], s["exit_code"]) for s in ended["statuses"]] == [
        ("a1", 0),
        ("own-files", 0),
        ("a2", 0),
    ]
    assert ended["left"] == {
        "hosts.txt": "a1:1\nown-files:1\na2:1\n",
        **{f"rank-{r}.txt": f"{h}\n" for r, h in enumerate(("a1", "own-files", "a2"))},
    } or ended["left"] == {f"rank-{r}.txt": f"{h}\n" for r, h in enumerate(("a1", "own-files", "a2"))}
    assert sorted(said) == ["from a1", "from a2", "from own-files"]
    for host in ("own-files", "a2"):
        assert "apples" not in lab.run(host, "ls", "/run").stdout


@pytest.mark.parametrize(
    ("lacking", "answer"), [("none", "1"), ("1", "0"), pytest.param("2", "0", marks=pytest.mark.nightly)]
)
def test_ranks_on_several_hosts_wait_alike(lab, launch, library, mpi_programs, lacking, answer):
    """Ranks 0 and 1 are on one host. All have the monitor, or one of the two lacks it, or that of the other host."""
    program = mpi_programs("own", MIXED.read_text(), "mixed")
    text = f'test $PMI_RANK = {lacking} && unset LD_PRELOAD; exec "$0"'
    ended, said = outcome(launch("a1,a1,a2", "block", "sh", "-c", text, program))
    assert (ended["ended"], ended["message"], said) == ("finished", "", ["6"])
    assert ended["left"][".answer"] == answer


def running(lab, *hosts):
    """Whether the program runs on all these hosts."""
    program = f"{shutil.which('sleep')} 600"
    return all(program in lab.processes(host).values() for host in hosts)


#: Beginning of the message for each way of losing a host.
LOST = {"kill": "a3 was lost: its connection ended"} | dict.fromkeys(
    ("crash", "freeze", "cut"), "a3 was not heard of for "
)


def outcome_without(lab, host, way, process):
    """How a launch ends whose host is lost in this way; the host comes back."""
    try:
        getattr(lab, way)(host)
        return outcome(process)[0]
    finally:
        if back := {"freeze": lab.thaw, "cut": lab.mend}.get(way):
            back(host)
        lab.start(host)


# Killed, frozen and cut hosts are lost below, under MPI.
@pytest.mark.parametrize(
    "way", ["crash", *(pytest.param(way, marks=pytest.mark.nightly) for way in ("kill", "freeze", "cut"))]
)
def test_host_is_lost(lab, launch, way):
    process = launch("a1,a2,a3", "sleep", "600", lost_s=4.0)
    wait_for(lambda: running(lab, "a1", "a2", "a3"))
    ended = outcome_without(lab, "a3", way, process)
    assert (ended["ended"], ended["exit_code"]) == ("failed", 125)
    assert ended["message"].startswith(LOST[way])


# Killed, and frozen or cut: nightly under the other MPI.
@pytest.mark.parametrize(
    ("way", "mpi"),
    [
        ("kill", "openmpi"),
        pytest.param("kill", "mpich", marks=pytest.mark.nightly),
        ("freeze", "openmpi"),
        ("cut", "mpich"),
        pytest.param("freeze", "mpich", marks=pytest.mark.nightly),
        pytest.param("cut", "openmpi", marks=pytest.mark.nightly),
    ],
)
def test_lost_host_ends_a_run_of_any_mpi(lab, launch, mpi_programs, way, mpi):
    program = mpi_programs(mpi)
    process = launch("a2,a1,a2,a3", program, "600", lost_s=4.0)
    hosts = ("a1", "a2", "a3")
    wait_for(lambda: all(f"{program} 600" in lab.processes(host).values() for host in hosts))
    assert sorted(process.stdout.readline() for _ in range(4)) == [f"{rank} of 4 \n" for rank in range(4)]
    ended = outcome_without(lab, "a3", way, process)
    assert (ended["ended"], ended["exit_code"], list(ended["lost"])) == ("failed", 125, ["a3"])
    assert ended["message"].startswith(LOST[way])


def test_launcher_and_its_host_are_killed(lab, launch):
    """Its kernel closes the connections, upon which the host agents end their parts."""
    process = launch("a2,a3", "sleep", "600")
    wait_for(lambda: running(lab, "a2", "a3"))
    lab.kill("a1")
    try:
        process.communicate()
        wait_for(lambda: not left(lab), complaint=lambda: left(lab))
    finally:
        lab.start("a1")


@pytest.mark.covering("mpi", "chain")
@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize("chain", ["bare,bare,a2", "bare,bare,bare,a2"])
def test_bare_host_runs_a_program_of_the_user(lab, launch, mpi_programs, mpi, chain):
    program, ranks = mpi_programs(mpi), chain.count(",") + 1
    ended, said = outcome(launch(chain, program, "0"))
    assert (ended["ended"], ended["message"]) == ("finished", "")
    assert sorted(said) == [f"{rank} of {ranks} " for rank in range(ranks)]
    assert lab.run("bare", "ls", str(BIN)).returncode != 0


def test_probe_of_a_bare_host_measures_it(lab):
    result = lab.run("a1", str(BIN / "apples"), "probe", "a1", "bare", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    host = document["hosts"][1]
    assert (host["host"], host["fit"], host["kernel"]) == ("bare", True, None)
    assert 0.0 < host["facts"]["survey"]["availability"] <= 1.0
    assert host["facts"]["interfaces"]["eth0"][0] == host["facts"]["reached_at"]
    assert document["own_programs_only"]["bare"][0].startswith("has no apples-grid")
    assert [link["error"] for link in document["links"]] == [None, None]


@pytest.mark.nightly
def test_probe_names_the_slow_host(lab):
    lab.change("a3", cpu=0.3)
    try:
        result = lab.run("a1", str(BIN / "apples"), "probe", "a1", "a2", "a3", "--json")
    finally:
        lab.change("a3", cpu=1.0)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert {(k["source"], k["target"]) for k in document["links"]} == {
        (a, b) for a in ("a1", "a2", "a3") for b in ("a1", "a2", "a3") if a != b
    }
    assert all(link["error"] is None for link in document["links"])
    reasons = {h["host"]: h["verdict"]["reasons"] for h in document["hosts"]}
    assert reasons["a3"][0] == "throttled: its control groups leave it 0.30 of a CPU"
    assert not any("throttled" in reason for host in ("a1", "a2") for reason in reasons[host])
