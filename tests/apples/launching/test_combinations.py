"""What changes the ranks of a run, with each way to wait and share, under each MPI: every case is a real run.

A covering part of the cases, with each pair of values, runs always and the others nightly.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apples.client import include
from apples.coscheduling.events import Wait
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.model.plan import Outcome
from apples.model.progress import CheckpointAndEnd, NewSlabs, Progress
from apples.monitoring.environment import figures_of
from apples.monitoring.job import JOB, MonitoredRun
from tests.testbed.localcluster import LocalCluster

#: Adds 1 to each of 12 rows in each step, and moves rows when told to.
SOURCE = Path(__file__).with_name("changing.c")
#: Where one machine stands for several hosts, MPICH 5.0.2 hangs in collectives with spawned ranks, and Open MPI 4 fails
#: to start now and then.
HERE = ["localhost"] * 3
HOSTS = {"own": ["beta", "alpha", "alpha"], "openmpi": HERE}
THERE = HostAccess(
    addresses={host: HostAddress(host=host, address=host) for host in ("alpha", "beta")},
    timeouts=LivenessTimeouts(connect_s=60.0, lost_s=60.0),
)
#: Orders of a run. Only ranks of MPICH can leave; those of Open MPI refuse the first order.
ORDERS: dict[tuple[str, str], list[tuple[int, ...]]] = {
    ("drain", "own"): [(0, 6, 6), (0, 12)],
    ("drain", "openmpi"): [(0, 6, 6), (1, 6, 5)],
    ("resize", "own"): [(10, 1, 1), (1, 1, 10), (4, 7, 1)],
    ("resize", "openmpi"): [(10, 1, 1), (1, 1, 10), (4, 7, 1)],
}
#: Ranks that are left, and moves.
ENDS = {
    ("drain", "own"): (1, 2),
    ("drain", "openmpi"): (3, 1),
    ("resume", "own"): (2, 0),
    ("resume", "openmpi"): (2, 0),
}
CHANGES = ("drain", "resize", "resume", "spawn")
SHARINGS = ("none", "spin-block", "fcs", "block")
CASES = [
    pytest.param(change, sharing, mpi, marks=[] if (i + k + m) % 2 else [pytest.mark.nightly])
    for (i, change), (k, sharing), (m, mpi) in itertools.product(
        enumerate(CHANGES), enumerate(SHARINGS), enumerate(HOSTS)
    )
]


class Orders:
    """A controller that gives one order after the other, and then ends the run if it is to be resumed."""

    report_every_s = 0.05

    def __init__(self, orders: list[tuple[int, ...]], *, ends: bool) -> None:
        self._orders, self._ends = list(orders), ends
        self._rows: tuple[int, ...] | None = None

    def hear(self, progress: Progress) -> NewSlabs | CheckpointAndEnd | None:
        if self._ends:
            return CheckpointAndEnd(why="it goes on with two ranks")
        if not self._orders or (progress.rows != self._rows and self._rows and not progress.refused):
            return None
        order = self._orders.pop(0)
        self._rows = tuple(filter(None, order))
        return NewSlabs(rows=order, reader="alpha" if 0 in order else None)

    def ended(self) -> tuple[()]:
        return ()


@pytest.fixture
def environment(request, library, runs) -> Iterator[dict[str, str]]:
    """Variables of the ranks for a way to wait or share, and its node manager."""
    sharing = request.getfixturevalue("sharing")
    if sharing in ("none", "block"):
        wait = Wait.SPIN_BLOCK if sharing == "block" else None
        yield MonitoredRun(wait=wait).environment(runs.directory) if wait else {}
        return
    place = Path(tempfile.mkdtemp(prefix="combined-"))
    with LocalCluster(place, {"a": "0,1"}, policy=sharing) as cluster:
        cluster.start() if sharing == "fcs" else cluster.start_node("a", managed=False)
        variables = {"APPLES_NODE_SOCKET": str(cluster.socket("a"))}
        yield MonitoredRun().environment(runs.directory) | variables
    shutil.rmtree(place)


@pytest.mark.usefixtures("fake_ssh")
@pytest.mark.parametrize(("change", "sharing", "mpi"), CASES)
def test_ranks_that_change_end_the_run_well(
    mpi_programs, runs, environment, monkeypatch, capfd, change, sharing, mpi
) -> None:
    monkeypatch.setenv("CPATH", str(include()))
    ranks, moves = ENDS.get((change, mpi), (3, len(ORDERS.get((change, mpi), []))))
    program = mpi_programs(mpi, SOURCE.read_text(), "combined")
    at = runs.directory.parent / "at"
    hosts = HERE if change == "spawn" else HOSTS[mpi]
    access = HostAccess(here=True) if hosts is HERE else THERE

    def run(hosts: list[str], *, ends: bool) -> Outcome:
        words = (program, str(99 if ends else moves), str(int(change == "spawn")), str(at))
        request = runs.request(*words, hosts=hosts, environment=environment, time_limit_s=25.0)
        controller = Orders(ORDERS.get((change, mpi), []), ends=ends)
        return mpirun.run(dataclasses.replace(request, controller=controller), access, print)

    if change == "resume":
        assert run(hosts, ends=True).ended == "adapted"
        hosts = hosts[:2]
    outcome = run(hosts, ends=False)
    assert (outcome.ended, outcome.exit_code, outcome.message) == ("finished", 0, "")
    (line,) = re.findall(r"^\d+ \d+ \d+ \d+$", capfd.readouterr().out, re.MULTILINE)
    steps, total, left, met = map(int, line.split())
    assert (total, left, met) == (66 + 12 * steps, ranks, 5 if change == "spawn" else 0)
    if environment:
        pages = figures_of(runs.directory, JOB)[: len(hosts)]
        assert [page.state.name for page in pages] == ["FINALIZED"] * len(hosts)


@pytest.mark.usefixtures("fake_ssh", "library")
def test_hosts_with_one_directory_count_their_ranks_once(mpi_programs, runs, monkeypatch) -> None:
    """Two agents send the list with two of three ranks."""
    monkeypatch.setenv("CPATH", str(include()))
    program = mpi_programs("own", SOURCE.read_text(), "combined")
    text = 'test $PMI_RANK = 0 && unset LD_PRELOAD; exec "$@"'
    words = ("sh", "-c", text, "sh", program, "0", "0", str(runs.directory.parent / "at"))
    environment = MonitoredRun(wait=Wait.SPIN_BLOCK).environment(runs.directory)
    request = runs.request(*words, hosts=HOSTS["own"], environment=environment, time_limit_s=25.0)
    outcome = mpirun.run(request, THERE, print)
    assert (outcome.ended, outcome.message) == ("finished", "")
    assert (runs.directory / ".answer").read_text() == "0"
