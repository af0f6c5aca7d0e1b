"""A cluster as a platform: what Slurm's commands print becomes a pool. Slurm is a script here."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs

from apples.errors import ConfigError, LaunchError, NoFeasiblePlan, ProgramNotFound
from apples.hosts.hostmessages import Survey
from apples.hosts.speed import LinkSpeed
from apples.model.grid import Grid, Host, LinkRule
from apples.platforms import requirements
from apples.platforms.platform import Preparation
from apples.slurm import checkednodes, platform as slurm_platform
from apples.slurm.allocation import AllocationRefused, Given
from apples.slurm.commands import Wishes
from apples.slurm.nodecheck import NodeCheckResult
from apples.slurm.platform import SlurmPlatform
from apples.slurm.pool import LinkStore, Offer
from apples.slurm.records import Node
from tests.hostfacts import host_facts
from tests.transcripts import text_of

#: Prints the file that is named after its words, as in `show-nodes`; complains as Slurm does where there is none.
SCRIPT = text_of("apples/slurm/says.txt")
NODE = (
    "NodeName={0} Arch=x86_64 CPUTot=2 CPUAlloc={1} RealMemory=1000 AllocMem=100 FreeMem=800 State={2} "
    "NodeAddr={0}\n"
)
PARTITIONS = (
    "PartitionName=all Default=YES Nodes=n[1-4] MaxTime=1:00:00 State=UP OverSubscribe=NO\n"
    "PartitionName=closed Nodes=n1 State=DOWN\n"
)

CONFIG = "ClusterName = lab\nSelectTypeParameters = CR_CPU_MEMORY\n"


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Directory of what Slurm says, one file for each question."""
    programs, says = tmp_path / "bin", tmp_path / "says"
    for directory in (programs, says):
        directory.mkdir()
    (programs / "scontrol").write_text(SCRIPT.replace("SAYS", str(says)))
    (programs / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (says / "show-config").write_text(CONFIG)
    (says / "show-partition").write_text(PARTITIONS)
    states = (("n1", 0, "IDLE"), ("n2", 0, "IDLE"), ("n3", 2, "ALLOCATED"), ("n4", 0, "DOWN*"))
    (says / "show-nodes").write_text("".join(NODE.format(*state) for state in states))
    return says


def platform(tmp_path, **given):
    return SlurmPlatform(Given(state=tmp_path / "hosts", **given))


def silent(line):
    """Nobody listens."""


def test_idle_nodes_are_the_pool_and_their_cpus_count_in_full(says, tmp_path):
    notes = []
    one = platform(tmp_path)
    snapshot = one.snapshot(notes.append)
    assert [(h.name, h.slots, h.cpu_type) for h in snapshot.hosts] == [
        ("n1", 2, "slurm x86_64"),
        ("n2", 2, "slurm x86_64"),
    ]
    assert snapshot.absent == {"n3": "other jobs hold all its 2 CPUs", "n4": "it is down"}
    assert notes[0] == "looking at 4 nodes of partition all"
    first = snapshot.conditions[0]
    assert (first.availability.value, first.capacity.value, first.memory_bytes.value) == (
        1.0,
        2.0,
        800 * 2.0**20,
    )
    assert (one.pool.name, one.reaches(snapshot.hosts[0]), one.reaches(Host(name="n3"))) == (
        "all",
        True,
        False,
    )
    assert one.machine(snapshot.hosts[0]).startswith("slurm x86_64 python")
    cluster = one.cluster
    assert (cluster.most_s, cluster.counts_memory, cluster.enclosing) == (3600.0, True, None)


def test_named_hosts_keep_order_and_attributes(says, tmp_path):
    hosts = (Host(name="second", address="n2", slots=1, cpu_type="fast"), Host(name="n1", slots=8))
    link = LinkRule(latency_s=0.01, bandwidth_Bps=5e6)
    grid = Grid(name="file", hosts=hosts, links=(link,), source="lab.yaml")
    snapshot = platform(tmp_path, grid=grid, open_types=frozenset({"n1"})).snapshot(silent)
    assert [(h.name, h.slots, h.cpu_type) for h in snapshot.hosts] == [
        ("n2", 1, "fast"),
        ("n1", 2, "slurm x86_64"),
    ]
    assert snapshot.latency_s[0, 1] == 0.01


def test_links_that_were_measured_once_are_known(says, tmp_path):
    kept = LinkStore(tmp_path / "hosts" / "slurm-links.json", "lab", print)
    kept.add([LinkSpeed(source="n1", target="n2", latency_s=0.003, bandwidth_Bps=2e6)])
    snapshot = platform(tmp_path).snapshot(silent)
    assert (snapshot.latency_s[0, 1], snapshot.bandwidth_Bps[0, 1]) == (0.003, 2e6)


def test_as_many_nodes_as_the_user_allows(says, tmp_path):
    snapshot = platform(tmp_path, wishes=Wishes(nodes=(1, 1))).snapshot(silent)
    assert [h.name for h in snapshot.hosts] == ["n1"]
    assert snapshot.absent["n2"] == "--nodes allows 1"
    with pytest.raises(NoFeasiblePlan, match=r"2 of 3 nodes can be had in partition all:\nn3: other jobs"):
        platform(tmp_path, wishes=Wishes(nodes=(3, 4))).snapshot(silent)


def test_hosts_that_were_lost_are_not_planned_on_again(says, tmp_path):
    one = platform(tmp_path)
    one.drop({"n1": "it was lost: its connection ended"})
    snapshot = one.snapshot(silent)
    assert [h.name for h in snapshot.hosts] == ["n2"]
    assert snapshot.absent["n1"] == "it was lost: its connection ended"


def test_nothing_is_idle(says, tmp_path):
    (says / "show-nodes").write_text("".join(NODE.format(f"n{i}", 2, "ALLOCATED") for i in (1, 2, 3, 4)))
    with pytest.raises(NoFeasiblePlan) as raised:
        platform(tmp_path).snapshot(silent)
    assert str(raised.value).splitlines()[:2] == [
        "no node can be had in partition all:",
        "n1: other jobs hold all its 2 CPUs",
    ]


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (
            {"wishes": Wishes(partition="x")},
            ConfigError,
            "--partition x: there is no such partition; legal are all, closed",
        ),
        (
            {"wishes": Wishes(partition="closed")},
            NoFeasiblePlan,
            "partition closed is DOWN and starts no jobs",
        ),
        ({"grid": Grid(name="g", hosts=(Host(name="n9"),))}, ConfigError, "n9 are no nodes of partition all"),
        ({"job": "77"}, LaunchError, "scontrol: Slurm refused"),
    ],
)
def test_what_cannot_be_is_told(says, tmp_path, given, kind, message):
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        platform(tmp_path, **given).snapshot(silent)


def test_no_controller_and_no_slurm(says, tmp_path, monkeypatch):
    (says / "down").touch()
    with pytest.raises(LaunchError, match="Slurm's controller cannot be reached"):
        platform(tmp_path).snapshot(silent)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProgramNotFound, match="scontrol is in none of the directories of PATH"):
        platform(tmp_path).snapshot(silent)


def facts(name):
    survey = Survey(availability=0.4, capacity=0.9, quota=None, cpus=2, memory_bytes=5e8, load=1.0)
    interfaces = {"ib0": ("10.0.0.1",)}
    return host_facts(name=name, reached_at="10.0.0.1", interfaces=interfaces, survey=survey)


def test_inside_an_allocation_its_nodes_are_looked_at_first(says, tmp_path, monkeypatch):
    (says / "show-job-7").write_text(
        "JobId=7 JobState=RUNNING TimeLimit=UNLIMITED EndTime=Unknown NodeList=n[1-3] Nodes=n1 CPU_IDs=0-1 Mem=200 "
        "GRES= Nodes=n[2-3] CPU_IDs=0 Mem=1000 GRES=\n"
    )
    looked = []

    def look(what, needs, notify):
        looked.append(what)
        return NodeCheckResult(facts={n: facts(n) for n in ("n1", "n2")}, unfit={"n3": "has no numba"})

    monkeypatch.setattr(checkednodes, "look", look)
    one = platform(tmp_path, job="7")
    snapshot = one.snapshot(silent)
    assert [(h.name, h.slots, h.cpu_type) for h in snapshot.hosts] == [("n1", 2, "Xeon"), ("n2", 1, "Xeon")]
    assert snapshot.absent == {"n3": "it has no numba"}
    assert [c.memory_bytes.value for c in snapshot.conditions] == [200 * 2.0**20, 5e8]
    assert [c.availability.value for c in snapshot.conditions] == [0.4, 0.4]
    assert (looked[0].job, looked[0].addresses) == ("7", {"n1": "n1", "n2": "n2", "n3": "n3"})
    cluster = one.cluster
    assert (cluster.enclosing, cluster.left_s) == ("7", math.inf)
    # what was looked at before the plan is not looked at again
    readied = one._ready({}, "7", ["n1"], silent)
    assert (readied.interfaces, readied.unfit, len(looked)) == ({"n1": "ib0"}, {}, 1)


def test_slurm_forecasts_nodes_by_the_readings_of_checks(says, tmp_path, monkeypatch):
    shares = iter((0.4, 0.6, 0.5))

    def look(what, needs, notify):
        survey = structs.replace(facts("n1").survey, availability=next(shares))
        return NodeCheckResult(
            facts={n: structs.replace(facts(n), survey=survey) for n in what.addresses}, unfit={}
        )

    monkeypatch.setattr(checkednodes, "look", look)
    values = []
    for number in range(3):
        one = platform(tmp_path)
        values.append(one.snapshot(silent).conditions[0].availability.value)
        one._ready({}, str(number), ["n1"], silent)
    # few readings do not show how much they vary: the last counts
    assert values == [1.0, 0.4, 0.6]
    # the next run knows n1, and n2 was in no allocation yet
    n1, n2 = (c.availability for c in platform(tmp_path).snapshot(silent).conditions)
    assert (n1.samples, n2.samples, n2.value) == (3, 1, 1.0)
    assert 0.3 < n1.over(60.0).value < 0.7


def in_check_jobs(monkeypatch, look):
    """Replace the short jobs before plans; return the nodes of each."""
    jobs = []

    class Job:
        def __init__(self, shape, wishes, notify):
            self.number = "9"
            jobs.append((shape.hosts, shape.ranks_each, shape.name, wishes.immediate_s))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(checkednodes, "OwnAllocation", Job)
    monkeypatch.setattr(checkednodes, "look", look)
    return jobs


def test_idle_nodes_are_read_in_a_short_job_before_a_run_is_planned(says, tmp_path, monkeypatch):
    shares = {"n1": 0.5, "n2": 0.8}

    def look(what, needs, notify):
        surveys = {n: structs.replace(facts(n).survey, availability=shares[n]) for n in what.addresses}
        return NodeCheckResult(
            facts={n: structs.replace(facts(n), survey=s) for n, s in surveys.items()}, unfit={}
        )

    jobs = in_check_jobs(monkeypatch, look)
    one = platform(tmp_path)
    one.prepare(Preparation(runs=True))
    found = one.snapshot(silent)
    assert [c.availability.value for c in found.conditions] == [0.5, 0.8]
    assert jobs == [(("n1", "n2"), 1, "apples-check", checkednodes.WAIT_S)]
    # nodes that were read a moment ago are not read again, by a further plan or by the run
    one.snapshot(silent)
    assert (one._ready({}, "7", ["n1"], silent).interfaces, len(jobs)) == ({"n1": "ib0"}, 1)
    # a plan without a run asks Slurm for nothing, nor does a user who says no
    for given, runs in (({}, False), ({"reads": False}, True)):
        other = platform(tmp_path, **given)
        other.prepare(Preparation(runs=runs))
        other.snapshot(silent)
    assert len(jobs) == 1


def test_nodes_that_a_short_job_finds_unfit_are_not_planned_on(says, tmp_path, monkeypatch):
    seen = NodeCheckResult(facts={"n2": facts("n2")}, unfit={"n1": "has no numba"})
    jobs = in_check_jobs(monkeypatch, lambda what, needs, notify: seen)
    one = platform(tmp_path)
    one.prepare(Preparation(runs=True))
    for _ in range(2):
        found = one.snapshot(silent)
        assert ([h.name for h in found.hosts], found.absent["n1"]) == (["n2"], "it has no numba")
    assert len(jobs) == 1


def test_spare_node_takes_the_place_of_an_unfit_one(says, tmp_path, monkeypatch):
    (says / "show-nodes").write_text("".join(NODE.format(f"n{k}", 0, "IDLE") for k in (1, 2, 3)))
    (says / "show-partition").write_text(PARTITIONS.replace("n[1-4]", "n[1-3]"))
    seen = NodeCheckResult(facts={"n2": facts("n2")}, unfit={"n1": "has no numba"})
    jobs = in_check_jobs(monkeypatch, lambda what, needs, notify: seen)
    one, told = platform(tmp_path, wishes=Wishes(nodes=(2, 2))), []
    one.prepare(Preparation(runs=True))
    assert [host.name for host in one.snapshot(told.append).hosts] == ["n2", "n3"]
    assert jobs[0][0] == ("n1", "n2")
    assert "without n1: it has no numba" in told


def test_plans_during_a_run_start_no_job(says, tmp_path, monkeypatch):
    def look(what, needs, notify):
        return NodeCheckResult(facts={n: facts(n) for n in what.addresses})

    jobs = in_check_jobs(monkeypatch, look)
    one = platform(tmp_path)
    one.prepare(Preparation(runs=True))
    monkeypatch.setattr(slurm_platform.launching, "run", lambda *_, **more: one.snapshot(silent))
    monkeypatch.setattr(one, "with_mpi", lambda request: request)
    one.run(SimpleNamespace(environment={}), silent)
    assert jobs == []
    one.snapshot(silent)
    assert len(jobs) == 1


def test_links_are_measured_where_the_ranks_run(says, tmp_path, monkeypatch):
    """A check of more nodes than have their links measured leaves that to the allocation of the run."""
    looked = []

    def look(what, needs, notify):
        looked.append(list(what.addresses))
        if len(what.addresses) <= checkednodes.MOST_LINKED:
            what.links.add(
                [
                    LinkSpeed(source=a, target=b, latency_s=1e-4, bandwidth_Bps=1e9)
                    for a, b in (("n1", "n2"), ("n2", "n1"))
                ]
            )
        return NodeCheckResult(facts={n: facts(n) for n in what.addresses})

    in_check_jobs(monkeypatch, look)
    monkeypatch.setattr(checkednodes, "MOST_LINKED", 2)
    (says / "show-partition").write_text(PARTITIONS.replace("n[1-4]", "n[1-3]"))
    (says / "show-nodes").write_text("".join(NODE.format(f"n{k}", 0, "IDLE") for k in (1, 2, 3)))
    one = platform(tmp_path)
    one.prepare(Preparation(runs=True))
    one.snapshot(silent)
    for _ in range(2):
        one._ready({}, "7", ["n1", "n2"], silent)
    assert looked == [["n1", "n2", "n3"], ["n1", "n2"]]


def test_check_on_one_core_shows_the_capacity_of_all():
    one = facts("n1")
    bound = structs.replace(one, survey=structs.replace(one.survey, capacity=0.75, cpus=1))
    assert checkednodes.scaled(bound, 8).survey.capacity == 6.0
    assert checkednodes.scaled(one, 2) is one


def test_without_a_short_job_the_plan_uses_earlier_readings(says, tmp_path, monkeypatch):
    def refused(*_):
        raise AllocationRefused("Slurm gives no allocation of n[1-2]: busy")

    monkeypatch.setattr(checkednodes, "OwnAllocation", refused)
    one, told = platform(tmp_path), []
    one.prepare(Preparation(runs=True))
    assert [c.availability.value for c in one.snapshot(told.append).conditions] == [1.0, 1.0]
    assert "planning without a reading of the nodes: Slurm started no job on them at once" in told


def test_large_pools_are_planned_without_a_short_job(says, tmp_path):
    offers = [Offer(node=Node(name=f"n{k}"), slots=1) for k in range(checkednodes.MOST_NODES + 1)]
    assert checkednodes.unread(offers, {}, 0.0) == ()
    assert checkednodes.unread(offers[:2], {"n0": 10.0}, 20.0) == tuple(offers[:2])
    assert checkednodes.unread(offers[:1], {"n0": 10.0}, 20.0) == ()
    # a node that is shared with running jobs has no reading that shows a core of ours
    assert checkednodes.unread([replace(offers[0], share=0.5)], {}, 0.0) == ()


def test_nodes_of_an_allocation_keep_their_order(says, tmp_path, monkeypatch):
    (says / "show-job-7").write_text(
        "JobId=7 JobState=RUNNING NodeList=n[1-2] Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=\n"
    )
    seen = NodeCheckResult(facts={n: facts(n) for n in ("n1", "n2")})
    monkeypatch.setattr(checkednodes, "look", lambda what, needs, notify: seen)
    grid = Grid(name="g", hosts=(Host(name="b", address="n2"), Host(name="n1")))
    snapshot = platform(tmp_path, job="7", grid=grid).snapshot(silent)
    assert [(h.name, h.slots) for h in snapshot.hosts] == [("n2", 1), ("n1", 1)]
    other = Grid(name="g", hosts=(Host(name="n4"),))
    with pytest.raises(ConfigError, match=r"n4 are no nodes of job 7 \(n\[1-2\]\); correct the names"):
        platform(tmp_path, job="7", grid=other).snapshot(silent)


def test_allocation_that_is_over(says, tmp_path):
    (says / "show-job-7").write_text("JobId=7 JobState=TIMEOUT EndTime=2026-01-01T10:00:00 NodeList=n1\n")
    with pytest.raises(LaunchError, match=r"job 7 \(SLURM_JOB_ID\) is TIMEOUT"):
        platform(tmp_path, job="7").snapshot(silent)


def test_checkpoints_need_a_directory_that_all_nodes_see(says, tmp_path, monkeypatch):
    one = platform(tmp_path)
    one.snapshot(silent)
    assert one.checkpoint_s(tmp_path / "x.ckpt", 1e3) is None
    monkeypatch.setattr(slurm_platform, "file_system", lambda directory: "lustre")
    assert one.checkpoint_s(tmp_path / "x.ckpt", 1e3) is not None


def test_file_system_of_a_directory():
    assert requirements.file_system(Path("/proc/self")) == "proc"
