"""Where a job's processors are: as few hosts as will do, never more than a host has, the same after a restart."""

import json
import socket
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from apples.cli.pool import open_platform
from apples.cli.runoptions import PoolOptions
from apples.errors import ConfigError
from apples.livequeue.queuehosts import Machine, listed
from apples.livequeue.status import why
from tests.transcripts import recorded

POOL = Machine(slots={"alpha": 4, "beta": 2, "gamma": 8})


@recorded("apples/livequeue/host_shares.txt", "taken", "procs")
def test_job_gets_as_few_hosts_as_will_do(answered, taken, procs):
    answered(POOL.share(taken, procs))


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1), st.lists(st.integers(1, 12))
)
def test_no_host_gives_more_than_it_has(slots, jobs):
    machine, taken = Machine(slots=slots), []
    for procs in jobs:
        given = machine.share(taken, procs)
        free = machine.processors - sum(sum(one.values()) for one in taken)
        assert sum(given.values()) == (procs if procs <= free else 0)
        taken.append(given)
    used = sum((Counter(one) for one in taken), Counter())
    assert all(used[host] <= slots[host] for host in slots)


def test_jobs_share_the_hosts_and_keep_theirs_through_a_restart(bench, asked):
    one = bench(processors=POOL)
    assert one.at(0, asked(procs=6), asked(procs=5), asked(procs=3), asked(procs=1)) == [1, 2, 3]
    hosts = {record.id: dict(record.hosts) for record in one.store.present()}
    assert hosts == {1: {"gamma": 6}, 2: {"alpha": 4, "beta": 1}, 3: {"beta": 1, "gamma": 2}, 4: {}}
    one.restart()
    assert one.at(1, ended=[2]) == [4]
    assert one.store.job(4).hosts == {"beta": 1}
    assert "job 3 runs since 1 s on 3 processors (beta:1,gamma:2); it is ended at" in why(one.live, 3)


def test_host_that_has_left_is_given_to_nobody(bench, asked):
    one = bench(processors=POOL)
    one.at(0, asked(procs=8), asked(procs=4))
    one.live.set_machine(Machine(slots={"alpha": 4, "beta": 2}))
    assert one.at(1, asked(procs=2)) == []
    assert one.at(2, ended=[1]) == [3]
    assert one.store.job(3).hosts == {"beta": 2}


def test_job_is_told_its_hosts(manager, cli, tmp_path):
    call, _, eventually = cli
    manager("-H", "alpha:2,beta[1-2]")
    for _ in range(2):
        call("submit", "-n", 2, "--", "sh", "-c", "echo $APPLES_QUEUE_HOSTS; sleep 600", cwd=tmp_path)
    files = [tmp_path / f"apples-{number}.out" for number in (1, 2)]
    eventually(lambda: all(file.exists() and file.read_text() for file in files))
    assert [file.read_text() for file in files] == ["alpha:2\n", "beta1:1,beta2:1\n"]
    found = json.loads(call("queue", "--json"))
    assert found["hosts"] == {"alpha": 2, "beta1": 1, "beta2": 1}
    assert [job["hosts"] for job in found["jobs"]] == [{"alpha": 2}, {"beta1": 1, "beta2": 1}]
    table = call("queue")
    assert "beta[1-2]" in table
    assert "on 2 processors (beta1:1,beta2:1)" in call("why", 2)


def test_what_is_given_out_is_said_once(cli, tmp_path):
    call, _, _ = cli
    pool = tmp_path / "pool"
    pool.write_text("alpha slots=0\nbeta\n")
    said = call("manager", "--queue", "--procs", 2, "-H", "alpha", "--hostfile", pool, code=2)
    assert "--procs and --host and --hostfile exclude each other; keep one" in said
    assert f"{pool}:1: " in call("manager", "--queue", "--hostfile", pool, code=2)
    assert "--host is for a queue; add --queue" in call("manager", "-H", "alpha", code=2)


def test_hosts_as_launchers_read_them():
    assert listed({"alpha": 4, "beta": 2}) == "alpha:4,beta:2"


def test_run_in_a_job_keeps_to_its_hosts_unless_it_names_others(monkeypatch):
    def pool(**options):
        platform, _ = open_platform(PoolOptions(**options))
        return [(host.name, host.slots) for host in platform.pool.hosts]

    name = socket.gethostname()
    monkeypatch.setenv("APPLES_QUEUE_HOSTS", f"{name}:3")
    assert pool() == [(name, 3)]
    monkeypatch.setenv("APPLES_QUEUE_HOSTS", "somewhere-else:1")
    with pytest.raises(ConfigError, match="no host somewhere-else in this machine"):
        pool()
    assert pool(hosts="localhost:1") == [("localhost", 1)]
