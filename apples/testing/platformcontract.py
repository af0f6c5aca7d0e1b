"""Contract tests of platforms. Subclass them in a test module, and define the fixture `platform`.

    class TestMine(RunContract):
        @pytest.fixture
        def platform(self):
            return MyPlatform(...)

`PlatformContract` covers pool, snapshot, checks and dropped hosts. `RunContract` adds runs of real or simulated ranks.
"""

import sys
from pathlib import Path

from apples.errors import LaunchError, NoFeasiblePlan
from apples.model.drained import DrainedHost, DrainedHosts
from apples.model.grid import Snapshot
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from apples.platforms.platform import Platform, Preparation


def snapshot_of(platform: Platform) -> Snapshot:
    """Return a snapshot; messages are discarded."""
    return platform.snapshot(lambda line: None)


def one_rank(
    host: str, run_dir: Path, program: str = "pass", *, time_limit_s: float | None = None
) -> LaunchRequest:
    """Return the launch of a Python program as one rank on a host."""
    return LaunchRequest(
        plan=unplanned([host], scheduler="contract", application="contract"),
        workload=Workload(application="contract", size=1, iterations=10, bytes_per_row=1.0),
        command=(sys.executable, "-c", program),
        run_dir=run_dir,
        time_limit_s=time_limit_s,
    )


class PlatformContract:
    """Contract of pool, snapshot and checks."""

    def test_name_is_a_word(self, platform: Platform) -> None:
        """The name is a value of --launcher."""
        assert platform.name
        assert platform.name == platform.name.strip()

    def test_snapshot_describes_hosts_of_the_pool(self, platform: Platform) -> None:
        """Every host of the snapshot is in the pool; link tables are float64[hosts, hosts]."""
        snapshot = snapshot_of(platform)
        names = [host.name for host in snapshot.hosts]
        assert names
        assert set(names) <= {host.name for host in platform.pool.hosts}
        assert snapshot.latency_s.shape == snapshot.bandwidth_Bps.shape == (len(names), len(names))
        assert len(snapshot.conditions) == len(names)
        assert snapshot.source

    def test_availabilities_are_shares_of_a_cpu(self, platform: Platform) -> None:
        """A new process gets more than nothing and at most one CPU."""
        shares = [one.availability.value for one in snapshot_of(platform).conditions]
        assert all(0.0 < share <= 1.0 for share in shares)

    def test_dropped_host_is_absent_with_its_reason(self, platform: Platform) -> None:
        """A dropped host does not return; without any host no plan is feasible."""
        first, *others = [host.name for host in snapshot_of(platform).hosts]
        platform.drop({first: "it was lost"})
        try:
            snapshot = snapshot_of(platform)
        except NoFeasiblePlan:
            assert not others
        else:
            assert snapshot.absent[first] == "it was lost"
            assert first not in [host.name for host in snapshot.hosts]

    def test_machine_is_the_same_in_each_snapshot(self, platform: Platform) -> None:
        """Benchmarks stay valid from one snapshot to the next."""
        before = [platform.machine(host) for host in snapshot_of(platform).hosts]
        assert before == [platform.machine(host) for host in snapshot_of(platform).hosts]

    def test_clock_does_not_run_backwards(self, platform: Platform) -> None:
        """The clock is in seconds since the epoch."""
        before = platform.now()
        snapshot_of(platform)
        assert platform.now() >= before > 9e8

    def test_preparation_leaves_the_hosts_usable(self, platform: Platform) -> None:
        """A run without requirements excludes no host."""
        before = [host.name for host in snapshot_of(platform).hosts]
        platform.prepare(Preparation())
        assert [host.name for host in snapshot_of(platform).hosts] == before

    def test_seconds_of_a_checkpoint(self, platform: Platform, tmp_path: Path) -> None:
        """They are not negative; None means that the hosts share no directory."""
        snapshot_of(platform)
        seconds = platform.checkpoint_s(tmp_path / "run.ckpt", 1e6)
        assert seconds is None or seconds >= 0.0

    def test_drained_host_is_known_where_hosts_are_shared(self, platform: Platform) -> None:
        """Hosts that no other job can use cannot be drained."""
        drains, now = DrainedHosts(), platform.now()
        drains.change(now, add=[DrainedHost(host="drained-host", since=now)])
        try:
            assert ("drained-host" in platform.drained(print)) == platform.shares_hosts
        finally:
            drains.change(now, remove=["drained-host"])

    def test_plan_on_an_unknown_host_is_rejected(self, platform: Platform, tmp_path: Path) -> None:
        """The error names the host."""
        snapshot_of(platform)
        message = ""
        try:
            platform.check(one_rank("no-such-host", tmp_path))
        except LaunchError as error:
            message = str(error)
        assert "no-such-host" in message


class RunContract(PlatformContract):
    """Contract of runs."""

    def first(self, platform: Platform) -> str:
        """Return the first host of a snapshot."""
        return snapshot_of(platform).hosts[0].name

    def test_command_line_is_a_list_of_words(self, platform: Platform, tmp_path: Path) -> None:
        """The command contains the program."""
        words = platform.command_line(one_rank(self.first(platform), tmp_path))
        assert words
        assert any("python" in word for word in words)

    def test_finished_run(self, platform: Platform, tmp_path: Path) -> None:
        """A run that ends well has code 0, a duration and a status of each rank."""
        host = self.first(platform)
        outcome = platform.run(one_rank(host, tmp_path), lambda line: None)
        assert (outcome.ended, outcome.exit_code) == ("finished", 0), outcome.message
        assert outcome.observed_s > 0.0
        assert [status.host for status in outcome.statuses] in ([host], [])

    def test_failed_rank_gives_its_exit_code(self, platform: Platform, tmp_path: Path) -> None:
        """Simulated ranks run no program, so they cannot fail this way."""
        request = one_rank(self.first(platform), tmp_path, "raise SystemExit(3)")
        outcome = platform.run(request, lambda line: None)
        expected = ("failed", 3) if platform.starts_programs else ("finished", 0)
        assert (outcome.ended, outcome.exit_code) == expected

    def test_time_limit_ends_the_run(self, platform: Platform, tmp_path: Path) -> None:
        """The exit code is 124."""
        limit_s = 0.5 if platform.starts_programs else 1e-6
        request = one_rank(
            self.first(platform), tmp_path, "import time; time.sleep(60)", time_limit_s=limit_s
        )
        outcome = platform.run(request, lambda line: None)
        assert (outcome.ended, outcome.exit_code) == ("time limit", 124)
        assert outcome.observed_s < 60.0
