"""Command lines, times and shapes; what complaints mean; what became of a job; what is kept of links."""

import pytest

from apples.hosts.fdserver import server_of
from apples.hosts.speed import LinkSpeed
from apples.hosts.statusfile import host_of
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Outcome, RankStatus, unplanned
from apples.model.template import Workload
from apples.slurm import commands
from apples.slurm.allocation import waiting_text
from apples.slurm.commands import Shape, Wishes
from apples.slurm.launching import Cluster, explained, needs_explaining, shape, step_command, wanted_s
from apples.slurm.meanings import hopeless, meaning
from apples.slurm.pool import LinkStore
from apples.slurm.records import Job
from tests.transcripts import recorded


def request(tmp_path, *hosts, rows=0.0, **options):
    return LaunchRequest(
        plan=unplanned(hosts, scheduler="test", application="test"),
        workload=Workload(application="test", size=len(hosts), bytes_per_row=rows),
        command=("true",),
        run_dir=tmp_path,
        **options,
    )


def test_salloc_names_hosts_and_every_option():
    wishes = Wishes(
        partition="p", account="a", qos="q", reservation="r", constraint="c", exclusive=True, immediate_s=0.5
    )
    found = commands.salloc(
        Shape(hosts=("n1", "n2"), ranks_each=3, minutes=7, threads=2, memory_bytes=1.5 * 2**20),
        wishes,
        ["hold"],
    )
    assert found[0] == "salloc"
    assert found[-1] == "hold"
    assert set(found[1:-1]) == {
        *(
            "--nodelist=n[1-2]",
            "--nodes=2",
            "--ntasks=6",
            "--ntasks-per-node=3",
            "--time=7",
            "--job-name=apples-run",
        ),
        *("--cpus-per-task=2", "--mem=2M", "--partition=p", "--account=a", "--qos=q", "--reservation=r"),
        *("--constraint=c", "--exclusive", "--immediate=1"),
    }


def test_what_an_enclosing_job_left_is_not_taken_for_our_wish():
    environment = {"SLURM_NTASKS": "9", "SRUN_DEBUG": "1", "PMI_RANK": "0", "SLURM_CONF": "/c", "HOME": "/h"}
    assert commands.clean_environment(environment) == {"SLURM_CONF": "/c", "HOME": "/h"}


def test_host_gets_as_many_ranks_as_the_one_that_has_most(tmp_path):
    cluster = Cluster(hosts={"n1": 2, "n3": 1}, counts_memory=True)
    plain = shape(request(tmp_path, "n1", "n3", "n1"), cluster)
    assert (plain.hosts, plain.ranks_each, plain.memory_bytes) == (("n1", "n3"), 2, 0.0)
    counted = shape(request(tmp_path, "n1", "n3", "n1", rows=1e6), cluster)
    assert counted.memory_bytes == 2 * (1e6 + 128 * 2**20)


@pytest.mark.parametrize("slots", [1, 2])
def test_two_ranks_of_a_benchmark_share_a_node_of_one_cpu(tmp_path, slots):
    pair, cluster = request(tmp_path, "n1", "n1"), Cluster(hosts={"n1": slots})
    allocation = commands.salloc(shape(pair, cluster), cluster.wishes, [])
    step = step_command(pair, cluster, "srun", "7", name="x", where=("a.out", "/"))
    assert ("--overcommit" in allocation) == ("--overcommit" in step) == (slots == 1)


def test_time_of_an_allocation(tmp_path):
    assert wanted_s(request(tmp_path, "n1", time_limit_s=100.0)) == 145.0
    limited = shape(request(tmp_path, "n1", time_limit_s=600.0), Cluster(hosts={"n1": 1}, most_s=150.0))
    assert limited.minutes == 2


@recorded("apples/slurm/complaints.txt", "said")
def test_complaints_and_what_to_do(answered, said):
    answered(meaning(said, 1))


def test_silence():
    assert meaning("", None).startswith("Slurm does not answer")


@recorded("apples/slurm/hopeless.txt", "reason")
def test_waits_that_do_not_end(answered, reason):
    answered(hopeless(reason))


def test_what_a_job_waits_for():
    job = Job(number="3", state="PENDING", reason="Resources", expected="2026-01-01T10:00:00")
    assert (
        waiting_text(job)
        == "job 3 waits for nodes that others hold; expected to start at 2026-01-01T10:00:00"
    )
    reserved = Job(number="3", state="PENDING", reason="ReqNodeNotAvail,_May_be_reserved_for_other_job")
    assert waiting_text(reserved).startswith("job 3 waits for the end of a reservation of its nodes;")
    assert waiting_text(Job(number="3", state="PENDING", reason="Licenses")) == "job 3 waits (Licenses)"


FAILED = Outcome(
    ended="failed",
    exit_code=125,
    observed_s=1.0,
    message="n1 was lost: its connection ended; n2 was lost: its connection ended",
    statuses=tuple(RankStatus(rank=r, host=h, exit_code=None) for r, h in enumerate(("n1", "n2"))),
    lost={"n1": "was lost", "n2": "was lost"},
)


@recorded("apples/slurm/ends_of_jobs.txt", "state")
def test_what_became_of_the_job_explains_what_the_launch_saw(answered, state):
    found = explained(FAILED, Job(number="5", state=state), {"n2": "is down"})
    answered([str((found.ended, found.exit_code, found.lost)), found.message])


def test_slurm_is_asked_only_where_it_may_have_had_a_hand_in_it():
    assert needs_explaining(FAILED, revoked=False)
    some = Outcome(
        ended="failed", exit_code=125, observed_s=1.0, statuses=FAILED.statuses, lost={"n1": "was lost"}
    )
    assert not needs_explaining(some, revoked=False)
    assert needs_explaining(some, revoked=True)
    assert not needs_explaining(Outcome(ended="failed", exit_code=3, observed_s=1.0), revoked=False)
    for told_to_end in (143, 137):
        assert needs_explaining(Outcome(ended="failed", exit_code=told_to_end, observed_s=1.0), revoked=False)
    assert not needs_explaining(Outcome(ended="interrupted", exit_code=130, observed_s=1.0), revoked=False)


def test_messages_speak_of_what_stands_in_the_place_of_mpiexec():
    said = "rank 0 on n1 did not start (mpiexec ended with code 1): srun: X lacks support for cpu binding\nno plugin"
    found = explained(Outcome(ended="failed", exit_code=125, observed_s=0.0, message=said), None)
    assert found.message.endswith("no plugin")
    assert "mpiexec" not in found.message


def test_each_host_has_one_server_of_descriptors():
    hosts = "a:2,b:1,a:1"
    assert [server_of("x", host_of(rank, hosts), hosts) for rank in range(4)] == ["x-0", "x-0", "x-1", "x-0"]


def link(source, target, latency_s=0.001):
    return LinkSpeed(source=source, target=target, latency_s=latency_s, bandwidth_Bps=1e6)


def test_links_are_kept_for_each_cluster(tmp_path):
    path = tmp_path / "hosts" / "links.json"
    lab, other = LinkStore(path, "lab", print), LinkStore(path, "other", print)
    assert lab.missing(["a", "b", "c"]) == ["a", "b", "c"]
    lab.add([link("a", "b"), link("b", "a"), LinkSpeed(source="a", target="c", error="refused")])
    other.add([link("a", "b", 0.5)])
    assert lab.missing(["a", "b"]) == []
    assert lab.missing(["a", "b", "c"]) == ["a", "b", "c"]
    assert [(k.source, k.target, k.latency_s) for k in lab.among(["a", "b"])] == [
        ("a", "b", 0.001),
        ("b", "a", 0.001),
    ]
    assert [k.latency_s for k in other.among(["a", "b"])] == [0.5]
    lab.add([link("a", "b", 0.002)])
    assert [k.latency_s for k in lab.among(["a", "b"])] == [0.002, 0.001]


def test_links_unreadable_are_named_and_measured_again(tmp_path):
    path = tmp_path / "links.json"
    path.write_text('{"format": "apples-slurm-links", "version": 1, "links": [{"cluster": "x"}]}')
    notes = []
    links = LinkStore(path, "lab", notes.append)
    assert links.missing(["a", "b"]) == ["a", "b"]
    assert "has no list of links; remove it" in notes[0]
    links.add([link("a", "b"), link("b", "a")])
    assert links.missing(["a", "b"]) == []
    path.unlink()
    path.mkdir()
    links.add([link("a", "b")])
    assert notes[-1].startswith("the links measured now are not kept")
