"""Real daemons and real processes: jobs take turns, and whatever dies, no process stays stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from apples.daemons import cgroups
from apples.errors import SharingError
from tests.testbed.localcluster import kill, state_of, stopped

BIN = os.path.dirname(sys.executable)


def apples(*arguments, **environment):
    return subprocess.run(
        [f"{BIN}/apples", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def two_jobs(site):
    """Two jobs of two processes each, one on each node, that are both in; by job."""
    nodes = list(site.cpus)
    jobs = {
        job: [site.spin(job, rank, len(nodes), node) for rank, node in enumerate(nodes)] for job in ("x", "y")
    }
    site.wait(lambda: (known := site.view()["jobs"]) and all(job["state"] == "in" for job in known.values()))
    site.wait(lambda: stopped([p for both in jobs.values() for p in both]))
    return jobs


def slots(site):
    """By job that is in, its slot."""
    jobs = site.view().get("jobs", {})
    return {job: about["slot"] for job, about in jobs.items() if about["slot"] is not None}


def test_jobs_take_turns_and_all_processes_of_one_at_a_time(local_cluster):
    site = local_cluster({"a": "0", "b": "0"})
    site.start()
    jobs = two_jobs(site)
    assert sorted(slots(site).values()) == [0, 1]
    seen = set()
    deadline = time.monotonic() + 20
    while seen != {"x", "y"} and time.monotonic() < deadline:
        held = {job for job, both in jobs.items() if len(stopped(both)) == 2}
        # only between two readings of /proc can both be seen stopped
        if len(held) == 1:
            seen |= held
    assert seen == {"x", "y"}
    for node in "ab":
        site.wait(lambda node=node: all(p["stopped_s"] > 0.15 for p in site.ask(node, "status")["processes"]))
    # the one that is left has the machine
    for process in jobs["x"]:
        kill(process)
    site.wait(lambda: list(slots(site)) == ["y"])
    site.wait(lambda: not stopped(jobs["y"]))
    assert [entry["rank"] for entry in site.ask("a", "job", "x")] == [0]


def test_killed_manager_leaves_no_process_stopped(local_cluster):
    site = local_cluster()
    site.start()
    (x,), (y,) = two_jobs(site).values()
    before = slots(site)
    kill(site.manager)
    site.wait(lambda: site.ask("a", "status")["silent"])
    site.wait(lambda: not stopped([x, y]))
    site.start_manager()
    site.wait(lambda: slots(site) == before, within_s=5.0)
    site.wait(lambda: stopped([x, y]))


def test_failed_node_manager_leaves_no_process_stopped(local_cluster):
    site = local_cluster()
    site.start()
    (x,), (y,) = two_jobs(site).values()
    before = slots(site)
    # It hangs.
    site.nodes["a"].send_signal(signal.SIGSTOP)
    try:
        site.wait(lambda: not stopped([x, y]))
        time.sleep(0.3)
        assert not stopped([x, y])
    finally:
        site.nodes["a"].send_signal(signal.SIGCONT)
    site.wait(lambda: stopped([x, y]))
    # Its watchdog is killed, and replaced; then it is.
    first = site.ask("a", "status")["watchdog"]
    os.kill(first, signal.SIGKILL)
    site.wait(lambda: (site.ask("a", "status")["watchdog"] or first) != first)
    site.wait(lambda: stopped([x, y]))
    kill(site.nodes["a"])
    site.wait(lambda: not stopped([x, y]))
    time.sleep(0.3)
    assert not stopped([x, y])
    site.start_node("a")
    site.wait(lambda: slots(site) == before, within_s=5.0)
    assert "2 processes of an earlier node manager taken over" in site.log()
    site.wait(lambda: stopped([x, y]))
    # It is told to end.
    watchdog = site.ask("a", "status")["watchdog"]
    site.nodes["a"].terminate()
    assert site.nodes["a"].wait(10) == 0
    assert not stopped([x, y])
    assert {state_of(x), state_of(y)} <= {"R", "S"}
    assert not site.socket("a").exists()
    assert not os.path.exists(f"/proc/{watchdog}")
    # The next one takes over what still runs.
    site.start_node("a")
    site.wait(lambda: len(site.ask("a", "status")["processes"]) == 2)


def test_slices_are_as_long_as_the_manager_says(local_cluster):
    site = local_cluster(slice_s=0.5)
    site.start()
    (x,), (y,) = two_jobs(site).values()
    site.wait(lambda: not stopped([x]))
    site.wait(lambda: stopped([x]))
    # longer than the watchdog would wait with the slices that a node has without a manager
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        assert stopped([x])
        assert not stopped([y])


def test_rank_that_is_killed_leaves_the_other_job_its_turns(local_cluster):
    site = local_cluster({"a": "0", "b": "0"})
    site.start()
    jobs = two_jobs(site)
    kill(jobs["x"][0])
    site.wait(lambda: site.view()["jobs"]["x"]["ended"] == 1)
    assert site.view()["jobs"]["x"]["state"] == "in"
    kill(jobs["x"][1])
    site.wait(lambda: list(slots(site)) == ["y"], within_s=5.0)
    site.wait(lambda: not stopped(jobs["y"]))


def test_cut_network_leaves_no_process_stopped_and_mends(local_cluster):
    site = local_cluster(relayed=True)
    site.start()
    (x,), (y,) = two_jobs(site).values()
    site.relay.cut()
    site.wait(lambda: not stopped([x, y]) and site.ask("a", "status")["silent"])
    site.relay.mend()
    # a short one costs its length; a line lost in the cut makes both sides connect again
    site.wait(lambda: stopped([x, y]) and sorted(slots(site).values()) == [0, 1], within_s=5.0)
    before = slots(site)
    site.relay.cut()
    site.wait(lambda: site.ask("a", "status")["silent"])
    site.wait(lambda: not stopped([x, y]))
    # long enough that both sides have given the connection up, and the manager the jobs
    site.wait(lambda: not site.ask("a", "status")["connected"])
    assert site.ask("a", "status")["manager"] == f"127.0.0.1:{site.relay.port}"
    site.relay.mend()
    site.wait(lambda: slots(site) == before, within_s=5.0)
    site.wait(lambda: stopped([x, y]))


def test_batch_lets_one_job_run_and_holds_the_next(local_cluster):
    site = local_cluster(policy="batch")
    site.start()
    x = site.spin("x", 0, 1, "a")
    site.wait(lambda: slots(site) == {"x": 0})
    y = site.spin("y", 0, 1, "a")
    site.wait(lambda: stopped([y]))
    assert site.view()["jobs"]["y"]["state"] == "waits"
    assert not stopped([x])
    assert site.ask("a", "status")["slots"] == 2
    kill(x)
    site.wait(lambda: not stopped([y]))
    site.wait(lambda: slots(site) == {"y": 0})


def test_processes_are_kept_on_the_cpus_of_their_node(local_cluster):
    cpu = max(os.sched_getaffinity(0))
    site = local_cluster({"a": str(cpu)}, policy="uncoordinated")
    site.start_node("a", managed=False)
    process = site.spin("x", 0, 1, "a")
    assert os.sched_getaffinity(process.pid) == {cpu}


def test_policy_that_needs_the_monitor_refuses_who_has_none(local_cluster):
    site = local_cluster(policy="message-driven")
    site.start_node("a", managed=False)
    with pytest.raises(SharingError, match="needs the monitor"):
        site.spin("x", 0, 1, "a")


# Where it may, `auto` takes cgroup.
@pytest.mark.parametrize("freezer", [pytest.param("cgroup", marks=pytest.mark.nightly), "auto"])
def test_freezer_serves_as_well_where_it_is_allowed(local_cluster, freezer):
    try:
        cgroups.find("freezer")
    except SharingError as error:
        pytest.skip(str(error))
    site = local_cluster(node_options=("--freezer", freezer))
    site.start()
    two = [both[0] for both in _frozen_jobs(site).values()]
    assert "control groups version" in site.ask("a", "status")["powers"]["stopping"]
    site.wait(lambda: any(p["stopped_s"] > 0.1 for p in site.ask("a", "status")["processes"]))
    kill(site.nodes["a"])
    # one that is still frozen could not end
    for process in two:
        process.terminate()
        process.wait(10)


def _frozen_jobs(site):
    jobs = {job: [site.spin(job, 0, 1, "a")] for job in ("x", "y")}
    site.wait(lambda: sorted(slots(site).values()) == [0, 1])
    return jobs


def test_second_node_manager_of_a_name_is_refused(shared_cluster):
    site = shared_cluster("uncoordinated")
    result = apples("node", "--policy", "uncoordinated", "--socket", site.socket("a"))
    assert result.returncode == 5
    assert f"a node manager runs there already, process {site.nodes['a'].pid} of " in result.stderr


def test_node_with_wrong_key_policy_or_name_gets_the_reason(shared_cluster, tmp_path):
    site = shared_cluster("gang")
    other = tmp_path / "other"
    apples("manager", "--new-key", other)
    for options, why in (
        (("--key", other, "--policy", "gang", "--name", "b"), "the keys differ"),
        (
            ("--key", site.key, "--policy", "fcs", "--name", "b"),
            "the manager's policy is gang, the node's fcs",
        ),
        (("--key", site.key, "--policy", "gang", "--name", "a"), "a node a is connected already"),
    ):
        path = site.directory / "other.sock"
        process = subprocess.Popen(
            [f"{BIN}/apples", "node", "--manager", site.manager_address, "--socket", path, *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        while why not in said and (line := process.stderr.readline()):
            said += line
        process.terminate()
        process.wait(10)
        process.stderr.close()
        assert f"no manager at {site.manager_address}: {why}" in said


def test_nonsense_at_the_manager_does_not_stop_heartbeats(shared_cluster):
    site = shared_cluster("gang")
    host, _, port = site.manager_address.rpartition(":")
    for nonsense in (b"GET / HTTP/1.0\r\n\r\n", b"x" * 10_000, b'{"hello": 1}\n', b"\0" * 100 + b"\n"):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(nonsense)
            stranger.settimeout(10)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(nonsense, (host, int(port)))
    assert site.hears("a")


def test_illegal_request_is_answered_with_the_legal_ones(shared_cluster):
    site = shared_cluster("uncoordinated")
    for line, why in (
        (b"nonsense\n", "expected one JSON object a line"),
        (b'{"dance": 1}\n', "legal are register, status, view, job, hold"),
        (b'{"register": 7}\n', "register 7: Expected `object`, got `int`"),
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(site.socket("a")))
            client.sendall(line)
            assert why in json.loads(client.makefile("rb").readline())["refused"]
    assert site.ask("a", "status")["processes"] == []


def test_end_of_a_connection_deregisters_its_process(shared_cluster):
    site = shared_cluster("uncoordinated")
    about = {"job": "me", "rank": 0, "ranks": 1, "pid": os.getpid(), "page": None}
    affinity = os.sched_getaffinity(0)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(site.socket("a")))
            client.sendall(json.dumps({"register": about}).encode() + b"\n")
            assert json.loads(client.makefile("rb").readline()) == {"registered": {"job": "me", "rank": 0}}
            assert [p["pid"] for p in site.ask("a", "status")["processes"]] == [os.getpid()]
        site.wait(lambda: site.ask("a", "status")["processes"] == [])
        assert [p["state"] for p in site.ask("a", "job", "me")] == ["left"]
    finally:
        os.sched_setaffinity(0, affinity)


def test_while_needed_daemons_end_after_the_last_process(local_cluster):
    site = local_cluster(manager_options=("--while-needed",), node_options=("--while-needed",))
    site.start()
    process = site.spin("x", 0, 1, "a")
    site.wait(lambda: slots(site) == {"x": 0})
    kill(process)
    assert site.nodes["a"].wait(20) == 0
    assert site.manager.wait(20) == 0


def test_daemon_programs_report_scheduling_class_of_process(local_cluster):
    site = local_cluster()
    site.start()
    realtime = site.ask("a", "status")["realtime"]
    for program in (site.nodes["a"], site.manager):
        scheduling_class = os.sched_getscheduler(program.pid) & ~os.SCHED_RESET_ON_FORK
        assert scheduling_class == (os.SCHED_FIFO if realtime else os.SCHED_OTHER)
    assert f"{'real time' if realtime else 'ordinary'} priority" in site.log()


def test_while_needed_node_ends_soon_after_a_short_use(local_cluster):
    """It looks once a second; a use between two looks counts, else it would wait 10 s for its first one."""
    site = local_cluster(node_options=("--while-needed",), policy="spin-block")
    site.start_node("a", managed=False)
    assert site.ask("a", "hold") == {}
    assert site.nodes["a"].wait(6) == 0


def test_apples_jobs_shows_who_shares_the_machine(local_cluster):
    site = local_cluster({"a": "0", "b": "0"})
    site.start()
    environment = {"APPLES_NODE_SOCKET": str(site.socket("a"))}
    nobody = apples("jobs", **environment).stdout
    assert "no jobs share these hosts now" in nobody
    assert "T_cpu" not in nobody
    two_jobs(site)
    site.wait(
        lambda: all(
            node["report"] is not None and len(node["report"]["processes"]) == 2
            for node in site.view()["nodes"].values()
        )
    )
    document = json.loads(apples("jobs", "--json", **environment).stdout)
    assert {name: (job["state"], job["ranks"]) for name, job in document["jobs"].items()} == {
        "x": ("in", 2),
        "y": ("in", 2),
    }
    assert [(p["rank"], p["node"]) for p in document["jobs"]["x"]["processes"]] == [(0, "a"), (1, "b")]
    assert set(document["nodes"]) == {"a", "b"}
    assert document["manager"]["policy"] == "gang"
    text = apples("jobs", **environment).stdout
    assert f"manager {site.manager_address}: gang, slices of 100 ms" in text
    assert next(line.split()[:5] for line in text.splitlines() if line.startswith("x ")) == [
        *("x", "in", str(document["jobs"]["x"]["slot"]), "2", "2"),
    ]


def test_apples_jobs_names_processes_that_share_slots(local_cluster):
    site = local_cluster()
    site.start()
    two_jobs(site)
    # Another program on the processor of the node.
    load = subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c", "while True: pass"])
    try:
        site.wait(lambda: site.ask("a", "status")["contended"] == ["x", "y"])
        environment = {"APPLES_NODE_SOCKET": str(site.socket("a"))}
        site.wait(lambda: apples("jobs", **environment).stdout.count("runs, contended") == 2)
    finally:
        kill(load)


def test_apples_jobs_without_anybody_to_ask_says_what_to_do(tmp_path):
    result = apples("jobs", APPLES_NODE_SOCKET=str(tmp_path / "none"))
    assert result.returncode == 7
    assert "no node manager answers on this host" in result.stderr
    assert "start one with `apples node`" in result.stderr
