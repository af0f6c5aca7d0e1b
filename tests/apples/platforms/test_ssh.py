"""Many hosts as a platform: what their check says becomes a grid, a snapshot and a launcher; no ssh is called here."""

import time
from contextlib import contextmanager

import pytest
from msgspec import structs

from apples.errors import LaunchError, NoFeasiblePlan
from apples.hosts.hostcheck import versions
from apples.hosts.hostmessages import AskSurvey, HostCheckError, Survey
from apples.hosts.hostpreflight import Checked
from apples.hosts.speed import LinkSpeed
from apples.hosts.warmhosts import WarmHosts
from apples.model.grid import Grid, Host, LinkRule
from apples.platforms import ssh as ssh_platform
from apples.platforms.hostreadings import LINKS_KEPT_S
from apples.platforms.platform import PlatformSetup, Preparation
from apples.platforms.ssh import SshPlatform
from nws.base.hostlist import HostSlots
from tests.hostfacts import host_facts
from tests.transcripts import recorded

VERSIONS = {"python": "3.11.7", "apples-grid": "0.1.0", "numba": "0.60", "numpy": "2.0"}


def facts(number, cpus=2):
    address = f"10.0.0.{number}"
    return host_facts(
        name=f"h{number}",
        resolved=(address,),
        reached_at=address,
        reached_from="10.0.0.1",
        interfaces={f"ens{number}": (address,), "lo": ("127.0.0.1",)},
        versions=VERSIONS,
        survey=Survey(availability=0.5, capacity=0.9, quota=None, cpus=cpus, memory_bytes=4e9, load=1.0),
    )


class Connection:
    """A connection to a host that was checked. later : availability by new readings, None if it does not answer"""

    def __init__(self, checked, later):
        self.checked, self.later = checked, later

    def question(self, question, answer, within_s):
        assert question == AskSurvey()
        if self.later is None:
            raise HostCheckError("did not answer")
        survey = structs.replace(self.checked.facts.survey, availability=self.later)
        return answer(survey=survey, survey_error=None)

    def stop(self): ...


@pytest.fixture
def told(monkeypatch, tmp_path_factory):
    """Answers of hosts: name → facts, or a problem. `needs` of each check; `later`: name → availability after it."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    answers = {"alpha": facts(2), "beta": facts(3, cpus=4), "gamma": "refuses our key; load it"}
    measured = [LinkSpeed(source="alpha", target="beta", latency_s=0.02, bandwidth_Bps=1e6)]
    needs, later = [], {}

    @contextmanager
    def conversations_with(candidates, wanted, *, limit_s):
        needs.append(wanted)
        found = []
        for one in candidates:
            answer = answers[one.name]
            checked = (
                Checked(candidate=one, problems=(answer,))
                if isinstance(answer, str)
                else Checked(candidate=one, facts=answer)
            )
            share = None if isinstance(answer, str) else answer.survey.availability
            found.append((checked, Connection(checked, later.get(one.name, share))))
        yield found

    monkeypatch.setattr(ssh_platform.hostpreflight, "conversations_with", conversations_with)
    monkeypatch.setattr(ssh_platform.speed, "links", lambda hosts, losses: measured if len(hosts) > 1 else [])
    answers |= {"needs": needs, "later": later}
    return answers


def pool(*hosts, links=()):
    return Grid(name="lab", hosts=hosts, links=links, source="lab.yaml")


THREE = (Host(name="alpha"), Host(name="beta", slots=3), Host(name="gamma"))
STATED = (LinkRule(latency_s=1.0, bandwidth_Bps=1e6),)


def lines_of(platform, snapshot):
    for host, now in zip(snapshot.hosts, snapshot.conditions, strict=True):
        measured = f"{now.availability.value:g} of {now.capacity.value:g} CPUs, {now.memory_bytes.value:g} B"
        yield f"{host.name}: {host.slots} slots, {host.cpu_type}, {measured}; {platform.machine(host)}"
    for place in platform.access.addresses.values():
        yield f"{place.host} is at {place.address}, {place.interface}"
    yield f"links: {snapshot.latency_s[0, 1]:g} s, {snapshot.bandwidth_Bps[0, 1]:g} B/s"
    assert platform.pool.hosts == snapshot.hosts
    assert all(platform.reaches(host) for host in snapshot.hosts)
    for name, why in snapshot.absent.items():
        assert not platform.reaches(Host(name=name))
        yield f"{name} is absent: {why}"


@recorded("apples/platforms/checks.txt", "why", "answers", "hosts", "given")
def test_snapshot_of_checked_hosts_is_as_recorded(told, answered, why, answers, hosts, given):
    """answers : of hosts that differ from `told`, `later` ones of their availability"""
    told["later"] |= answers.pop("later", {})
    told |= answers
    stated = [LinkRule(latency_s=s, bandwidth_Bps=5e6) for s in given.pop("links", ())]
    listed = (Host(**host) for host in hosts) if hosts else THREE
    platform = SshPlatform(pool(*listed, links=tuple(stated)), **given)
    notes = []
    try:
        answered([*lines_of(platform, platform.snapshot(notes.append)), notes[-1]])
    except NoFeasiblePlan as refusal:
        answered(str(refusal))


def test_ssh_keeps_the_readings_of_earlier_checks(told, tmp_path):
    assumed, samples = [], []
    for share in (0.4, 0.6, 0.5, 0.3):
        told["alpha"] = structs.replace(facts(2), survey=structs.replace(facts(2).survey, availability=share))
        snapshot = SshPlatform(pool(*THREE), state=tmp_path).snapshot(lambda line: None)
        alpha = snapshot.conditions[0].availability
        assumed.append((alpha.assumed, snapshot.latency_error_s[0, 1] == snapshot.latency_s[0, 1]))
        samples.append(alpha.samples)
    # few readings do not show how much they vary
    assert samples == [1, 1, 3, 4]
    assert assumed == [(True, True), (True, True), (False, False), (False, False)]
    over = alpha.over(60.0)
    assert 0 < over.quantiles[0] < 0.4 < over.quantiles[-1] <= 1
    assert 0.05 < alpha.error < 0.3


def test_ssh_measures_links_every_few_minutes(told, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_platform.speed, "links", lambda hosts, losses: both_ways)
    both_ways = [
        LinkSpeed(source=a, target=b, latency_s=0.02, bandwidth_Bps=1e6, lost=0.01)
        for a, b in (("alpha", "beta"), ("beta", "alpha"))
    ]
    measured, lost = [], []
    # the first checks show how much links vary
    for later in (0.0, 1.0, 2.0, 3.0, LINKS_KEPT_S + 3.0):
        now = time.time() + later
        monkeypatch.setattr(SshPlatform, "now", lambda self: now)  # noqa: B023  called in this turn
        notes = []
        snapshot = SshPlatform(pool(*THREE), state=tmp_path).snapshot(notes.append)
        measured.append("measuring the links among 2 hosts" in notes)
        lost.append(snapshot.loss[0, 1])
        assert snapshot.latency_s[1, 0] == pytest.approx(0.02)
    assert measured == [True, True, True, False, True]
    assert lost == pytest.approx([0.01] * 5)


def test_ssh_leaves_out_hosts_whose_sensors_fail_after_the_check(told, monkeypatch):
    answer = {"survey": None, "survey_error": "no /proc"}
    monkeypatch.setattr(Connection, "question", lambda self, question, kind, within_s: kind(**answer))
    with pytest.raises(NoFeasiblePlan, match=r"cannot tell its CPU and memory \(no /proc\)"):
        SshPlatform(pool(*THREE)).snapshot(lambda line: None)


def test_links_of_the_grid_file_count_before_stored_ones(told, tmp_path):
    for _ in range(3):
        measured = SshPlatform(pool(*THREE), state=tmp_path).snapshot(lambda line: None)
    assert measured.latency_s[0, 1] == pytest.approx(0.02)
    stated = pool(*THREE, links=STATED)
    assert SshPlatform(stated, state=tmp_path).snapshot(lambda line: None).latency_s[0, 1] == 1.0


def test_readings_are_stored_by_address(told, tmp_path):
    for share in (0.4, 0.6, 0.5):
        told["alpha"] = structs.replace(facts(2), survey=structs.replace(facts(2).survey, availability=share))
        here = pool(Host(name="alpha", address="me@10.0.0.2"), *THREE[1:])
        SshPlatform(here, state=tmp_path).snapshot(lambda line: None)
    told["gamma"] = told["alpha"]
    renamed = pool(
        Host(name="gamma", address="10.0.0.2"), Host(name="alpha", address="10.9.9.9"), links=STATED
    )
    snapshot = SshPlatform(renamed, state=tmp_path).snapshot(lambda line: None)
    assert [one.availability.samples for one in snapshot.conditions] == [4, 1]


def test_ssh_plans_without_a_usable_store_of_readings(told, tmp_path):
    (tmp_path / "readings.db").write_text("no database" * 1000)
    notes = []
    snapshot = SshPlatform(pool(*THREE), state=tmp_path).snapshot(notes.append)
    assert snapshot.conditions[0].availability.value == 0.5
    assert any("the readings of this check are not kept" in note for note in notes)


def test_host_that_comes_back_is_taken_again(told):
    platform = SshPlatform(pool(*THREE))
    platform.snapshot(lambda line: None)
    told["gamma"], told["alpha"] = facts(4), "does not answer"
    again = platform.snapshot(lambda line: None)
    assert [h.name for h in again.hosts] == ["beta", "gamma"]
    assert again.absent == {"alpha": "it does not answer"}


def test_pool_is_the_allocation_if_no_host_is_named(tmp_path, monkeypatch):
    (tmp_path / "nodes").write_text("n1\nn1\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    opened = SshPlatform.open(PlatformSetup(state=tmp_path)).pool
    assert [(host.name, host.slots) for host in opened.hosts] == [("n1", 2), ("n2", 1)]
    assert opened.source == "the allocation of PBS"
    named = SshPlatform.open(PlatformSetup(listed={"n9": HostSlots(name="n9")}, state=tmp_path)).pool
    assert [host.name for host in named.hosts] == ["n9"]


def test_checkpoint_is_asked_for_with_a_file_that_only_the_same_directory_shows(told, tmp_path):
    platform = SshPlatform(pool(*THREE))
    platform.prepare(Preparation(checkpoint=tmp_path / "run.chk", checkpoint_bytes=1e6))
    platform.snapshot(lambda line: None)
    (needs,) = told["needs"]
    assert needs.disk_bytes == {str(tmp_path / "run.chk"): 1e6}
    assert list(needs.tokens) == [str(tmp_path / "run.chk")]
    assert list(tmp_path.iterdir()) == []


def test_program_of_the_user_needs_its_own_files_only(told):
    platform = SshPlatform(pool(*THREE))
    platform.snapshot(lambda line: None)
    platform.prepare(Preparation(program_files=("/usr/bin/lmp", "/usr/bin/orted")))
    platform.snapshot(lambda line: None)
    package, program = told["needs"]
    assert package.versions == versions()
    assert any(file.endswith("rankwrapper.py") for file in package.files)
    assert (program.versions, program.files) == ({}, ("/usr/bin/lmp", "/usr/bin/orted"))
    assert program.shared_memory_bytes == package.shared_memory_bytes


def test_kernels_are_compiled_once_on_every_new_host(told, tmp_path, monkeypatch):
    called = []

    def warmed(command, notify):
        called.append(command[-1])
        if "beta" in command:
            raise LaunchError("no compiler")

    monkeypatch.setattr(ssh_platform, "run_warm_command", warmed)
    monkeypatch.setattr(ssh_platform, "find_ssh", lambda: "ssh")
    for expected in ([2, ["alpha"]], [1, ["alpha"]]):
        called.clear()
        platform = SshPlatform(pool(*THREE), state=tmp_path)
        platform.prepare(Preparation(warm_command=["python", "warm"]))
        snapshot = platform.snapshot(lambda line: None)
        # beta, where it failed, is tried again
        assert [len(called), [h.name for h in snapshot.hosts]] == expected
        assert snapshot.absent["beta"] == "its kernels could not be compiled: no compiler"


def test_file_of_warm_hosts_that_is_none(tmp_path):
    file = tmp_path / "warm.json"
    file.write_text('{"format": "apples-warm-hosts", "version": 1, "hosts": 3}')
    notes = []
    assert WarmHosts(file).known(notes.append) == []
    assert "warm.json: has no list of hosts; remove it" in notes[0]
