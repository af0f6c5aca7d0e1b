"""Options of the pool: Slurm allocations, and options that exclude each other."""

import pytest

from apples.cli.conflicts import pool_conflicts
from apples.cli.pool import launcher_options
from apples.cli.runoptions import PoolOptions, SharingOptions
from apples.errors import ConfigError
from apples.platforms.slurm import SlurmPlatform, read_wishes
from apples.slurm.commands import Wishes


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


def test_every_problem_at_once():
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
    assert pool_conflicts(slurm(), SharingOptions(policy="gang")) == [
        "--launcher slurm and --policy exclude each other: Slurm shares its nodes itself"
    ]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (problem,) = pool_conflicts(slurm(account="a", nodes="2"))
    assert problem.startswith(
        "--account is for a new allocation, but job 7 (SLURM_JOB_ID) is already allocated"
    )
