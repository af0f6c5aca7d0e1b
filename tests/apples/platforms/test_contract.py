"""The contract tests of `apples.testing` on every platform of this package, and on the example."""

import json
import os
import sys
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest
from click.testing import CliRunner

from apples.cli.conflicts import pool_conflicts
from apples.cli.run import run
from apples.cli.runoptions import PoolOptions, SharingOptions
from apples.errors import ConfigError
from apples.model.grid import Grid, Host, LinkRule
from apples.platforms import finding, local
from apples.platforms.finding import find_platform, platform_names
from apples.platforms.local import LocalPlatform
from apples.platforms.mock import open_mock
from apples.platforms.platform import PlatformSetup
from apples.platforms.ssh import SshPlatform
from apples.slurm.allocation import Given
from apples.slurm.platform import SlurmPlatform
from apples.testing.platformcontract import PlatformContract, RunContract
from tests.apples.slurm.test_slurmplatform import says
from tests.transcripts import recorded

__all__ = ["says"]

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "fake_platform"
FAKE_SSH = ROOT / "tests" / "apples" / "hosts" / "fake_ssh.sh"
LINK = LinkRule(latency_s=1e-4, bandwidth_Bps=1e8)


def pool(*names):
    hosts = tuple(Host(name=name, slots=2) for name in names)
    return Grid(name="lab", hosts=hosts, links=(LINK,), source="lab.yaml")


@pytest.fixture
def example(monkeypatch, tmp_path):
    """Install the example: its module and its entry point are on the path."""
    metadata = tmp_path / "site" / "apples_fake_platform-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: apples-fake-platform\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[apples.platforms]\nfake = fake_platform:FakeClusterPlatform\n"
        "broken = no_such_module:Platform\nodd = json:loads\n"
        "unreadable = unreadable_platform:Platform\nrude = rude_platform:Platform\n"
    )
    (metadata.parent / "unreadable_platform.py").write_text("class Platform(\n")
    (metadata.parent / "rude_platform.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(metadata.parent))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.delitem(sys.modules, "fake_platform", raising=False)


class TestMock(RunContract):
    @pytest.fixture
    def platform(self):
        return open_mock("centurion", seed=1)


class TestExample(RunContract):
    @pytest.fixture
    def platform(self, example):
        return find_platform("fake").open(PlatformSetup())


class TestSlurm(PlatformContract):
    @pytest.fixture
    def platform(self, says, tmp_path):
        return SlurmPlatform(Given(state=tmp_path / "hosts"))


@pytest.mark.mpi
@pytest.mark.slow
class TestLocal(RunContract):
    @pytest.fixture
    def platform(self, monkeypatch, tmp_path):
        monkeypatch.setattr(local.LocalWeather, "measure", lambda self, **rounds: None)
        return LocalPlatform(pool("localhost"), weather_file=tmp_path / "weather.db")


@pytest.mark.mpi
@pytest.mark.slow
class TestSsh(RunContract):
    @pytest.fixture
    def platform(self, monkeypatch, tmp_path):
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "ssh").symlink_to(FAKE_SSH)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        return SshPlatform(pool("alpha", "beta"), state=tmp_path, limit_s=60.0)


def test_platforms_of_this_package_are_registered():
    assert {"mock", "mpiexec", "slurm", "ssh"} <= set(platform_names())
    for name in ("mock", "mpiexec", "slurm", "ssh"):
        assert find_platform(name).name == name


def test_example_runs_by_its_name(example):
    words = ["64", "--app", "heat", "--launcher", "fake", "--launcher-option", "hosts=8", "--json", "-q"]
    result = CliRunner().invoke(run, words)
    assert result.exception is None, result.output
    document = json.loads(result.stdout)
    assert (document["ended"], document["world"], document["exit_code"]) == ("finished", "fake", 0)
    assert {host["host"] for host in document["hosts"]} <= {f"fake{k}" for k in range(1, 9)}


@recorded("apples/platforms/launcher_problems.txt", "words")
def test_wrong_launchers_and_options_are_named(example, answered, words):
    result = CliRunner().invoke(run, ["64", *words])
    assert isinstance(result.exception, ConfigError)
    answered(str(result.exception))


def test_platform_names_the_options_it_excludes(example):
    problems = pool_conflicts(PoolOptions(launcher="fake"), SharingOptions(policy="gang"))
    assert problems == [
        "--launcher fake and --policy exclude each other: there are no processes to coschedule"
    ]


def test_missing_entry_points_are_told_with_the_remedy(monkeypatch):
    monkeypatch.setattr(finding, "_own_entry_points", EntryPoints)
    monkeypatch.setattr(finding, "entry_points", lambda **chosen: EntryPoints())
    with pytest.raises(ConfigError, match=r"--launcher ssh: .* entry points .* `pip install -e \.` again"):
        find_platform("ssh")
