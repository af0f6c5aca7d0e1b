"""Options of the pool: Slurm allocations, and options that exclude each other."""

from typing import ClassVar

import pytest

from apples.cli.conflicts import pool_conflicts, sharing_conflicts
from apples.cli.pool import launcher_options
from apples.cli.runoptions import PoolOptions, RunOptions, SharingOptions
from apples.errors import ConfigError
from apples.platforms.mock import MockPlatform
from apples.slurm.allocation import read_wishes
from apples.slurm.commands import Wishes
from apples.slurm.platform import SlurmPlatform
from tests.transcripts import recorded


def slurm(**given):
    return PoolOptions(launcher="slurm", **given)


def slurm_request(options):
    return read_wishes(launcher_options(options, SlurmPlatform))


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)


def test_slurm_request():
    found = slurm_request(slurm(partition="p", nodes="2-4", immediate="1m", exclusive=True))
    assert found == Wishes(partition="p", nodes=(2, 4), immediate_s=60.0, exclusive=True)
    assert slurm_request(slurm(nodes="3")).nodes == (3, 3)
    assert slurm_request(slurm()) == Wishes()


def test_problem_at_once():
    with pytest.raises(ConfigError) as raised:
        slurm_request(slurm(nodes="4-2", immediate="soon", account=""))
    first, second, third = raised.value.problems
    assert first == "--nodes 4-2: expected MIN or MIN-MAX, for example 2 or 2-4"
    assert second.startswith("--immediate 'soon' is not a span of time")
    assert third == "--account: expected a name, got nothing"


def test_options_without_effect_are_refused(monkeypatch):
    assert pool_conflicts(slurm()) == []
    assert pool_conflicts(PoolOptions(launcher="ssh", hosts="a", partition="p")) == [
        "--partition is for --launcher slurm; add it, or leave --partition out"
    ]
    assert pool_conflicts(slurm(), SharingOptions(policy="gang")) == []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (problem,) = pool_conflicts(slurm(account="a", nodes="2"))
    assert problem.startswith(
        "--account is for a new allocation, but job 7 (SLURM_JOB_ID) is already allocated"
    )


@pytest.mark.parametrize(
    ("value", "exclusive"), [("yes", True), ("True", True), ("no", False), ("false", False)]
)
def test_exclusive_is_read_as_yes_or_no(value, exclusive):
    assert slurm_request(slurm(launcher_options=(f"exclusive={value}",))).exclusive is exclusive


@pytest.mark.parametrize("value", ["maybe", ""])
def test_another_value_of_exclusive_is_refused(value):
    with pytest.raises(ConfigError) as raised:
        slurm_request(slurm(nodes="4-2", launcher_options=(f"exclusive={value}",)))
    _, problem = raised.value.problems
    assert problem == f"--launcher-option exclusive={value}: no legal value; legal are yes, true, no, false"


def test_only_options_of_the_command_line_become_options_of_a_platform():
    class Odd(MockPlatform):
        options: ClassVar = dict.fromkeys(
            ("platform", "simulated", "launcher", "launcher_options", "hosts"), ""
        )

    given = PoolOptions(mock=True, hosts="a,b", launcher_options=("simulated=deep",))
    assert launcher_options(given, Odd) == {"hosts": "a,b", "simulated": "deep"}


@recorded("apples/cli/simulated_sharing.txt", "given")
def test_simulated_ranks_are_refused_however_they_are_chosen(answered, given):
    for pool, flag in (
        (PoolOptions(mock=True), "--mock"),
        (PoolOptions(scenario="centurion"), "--scenario"),
        (PoolOptions(launcher="mock"), "--launcher mock"),
    ):
        (problem,) = sharing_conflicts(RunOptions(pool=pool, sharing=SharingOptions(**given)))
        answered(problem.replace(f"leave {flag} out", "leave FLAG out"))
    assert sharing_conflicts(RunOptions(sharing=SharingOptions(**given))) == []
