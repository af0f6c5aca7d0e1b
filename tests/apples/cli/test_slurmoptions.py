"""Options of --launcher slurm: what is legal, and what nobody would read."""

import pytest

from apples.cli import slurmoptions
from apples.errors import ConfigError
from apples.slurm.commands import Wishes

NOTHING = dict.fromkeys(("partition", "account", "qos", "reservation", "constraint", "nodes", "immediate"))


def options(launcher="slurm", **given):
    return {**NOTHING, "exclusive": False, "launcher": launcher, **given}


@pytest.fixture(autouse=True)
def outside(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)


def test_wishes():
    found = slurmoptions.read(options(partition="p", nodes="2-4", immediate="1m", exclusive=True))
    assert found == Wishes(partition="p", nodes=(2, 4), immediate_s=60.0, exclusive=True)
    assert slurmoptions.read(options(nodes="3")).nodes == (3, 3)
    assert slurmoptions.read(options()) == Wishes()


def test_every_problem_at_once():
    with pytest.raises(ConfigError) as raised:
        slurmoptions.read(options(nodes="4-2", immediate="soon", account=""))
    first, second, third = raised.value.problems
    assert first == "--nodes 4-2: expected MIN or MIN-MAX, for example 2 or 2-4"
    assert second.startswith("--immediate 'soon' is not a span of time")
    assert third == "--account: expected a name, got nothing"


def test_options_that_nobody_would_read(monkeypatch):
    assert slurmoptions.problems(options()) == []
    assert slurmoptions.problems(options("ssh", partition="p")) == [
        "--partition is for --launcher slurm; add it, or leave --partition out"
    ]
    assert slurmoptions.problems(options(policy="gang")) == [
        "--launcher slurm and --policy exclude each other: Slurm shares its nodes itself"
    ]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (problem,) = slurmoptions.problems(options(account="a", nodes="2"))
    assert problem.startswith(
        "--account is for an allocation that is to be made, and job 7 (SLURM_JOB_ID) is there"
    )
