"""Who can take part: everything that is wrong with a host, at once."""

from msgspec import structs

from apples.hosts.facts import Needs, problems, request
from apples.hosts.hostmessages import CheckRequest, DiskAnswer, Survey
from tests.hostfacts import host_facts
from tests.transcripts import recorded

VERSIONS = {"python": "3.11.7", "apples-grid": "0.1.0", "mpich": "5.0.2"}
WELL = host_facts(
    resolved=("10.0.0.5",),
    reached_at="10.0.0.5",
    reached_from="10.0.0.1",
    interfaces={"lo": ("127.0.0.1",), "ens3": ("10.0.0.5", "fe80::1")},
    versions=VERSIONS,
    disks={
        "/data/run.chk": DiskAnswer(
            directory="/data", exists=True, writable=True, free_bytes=2e9, shared=True
        )
    },
    shared_memory_bytes=64e6,
    skew_s=0.01,
    survey=Survey(availability=0.9, capacity=3.6, quota=None, cpus=4, memory_bytes=8e9, load=0.1),
)
NEEDS = Needs(
    versions=VERSIONS,
    disk_bytes={"/data/run.chk": 1e9},
    tokens={"/data/run.chk": ".token"},
    shared_memory_bytes=1.1e6,
)


def test_host_that_is_well():
    assert problems(WELL, NEEDS, ("10.0.0.5",)) == ()
    assert WELL.interface == "ens3"


@recorded("apples/hosts/problems.txt", "changes")
def test_what_is_wrong_with_a_host(answered, changes):
    if "disks" in changes:
        changes = {"disks": {path: DiskAnswer(**about) for path, about in changes["disks"].items()}}
    answered(problems(structs.replace(WELL, **changes), NEEDS, ("10.0.0.5",)))


def test_too_little_memory():
    poor = structs.replace(WELL, survey=structs.replace(WELL.survey, memory_bytes=2e7))
    assert problems(poor, NEEDS, ())[0].startswith("has 20 MB of memory left")


def test_host_that_cannot_connect_to_us_cannot_take_part():
    (problem,) = problems(structs.replace(WELL, called_back=()), NEEDS, ())
    assert problem.startswith("cannot connect to this machine (it came from 10.0.0.1 by ssh), and ranks must")
    assert problems(structs.replace(WELL, called_back=("10.0.0.7",)), NEEDS, ()) == ()
    assert structs.replace(WELL, called_back=("10.0.0.7",)).our_address == "10.0.0.7"


def test_name_that_means_us_here():
    (problem,) = problems(WELL, NEEDS, ("127.0.1.1",))
    assert problem.startswith("has a name that resolves to 127.0.1.1 here, which is this machine")


def test_nothing_is_asked_of_names_where_there_is_no_network():
    here = structs.replace(WELL, reached_at=None, reached_from=None, resolved=("127.0.1.1",))
    assert problems(here, NEEDS, ()) == ()
    assert here.interface is None


def test_everything_is_told_at_once():
    worse = structs.replace(WELL, skew_s=60.0, resolved=(), shared_memory_bytes=0.0)
    assert len(problems(worse, NEEDS, ())) == 3


def test_what_is_asked():
    assert request(NEEDS) == CheckRequest(disks={"/data/run.chk": ".token"})


def test_host_that_leaves_out_a_directory_cannot_take_part():
    (only,) = problems(structs.replace(WELL, disks={}), NEEDS, ())
    assert only == "did not report the directory of /data/run.chk"
