"""Effects of failures on coscheduled jobs: manager, node manager or a rank killed with -9, and a cut in the network.

Each time two jobs of two processes share two nodes in time slices. One part fails and is restored, and both jobs run to
their end. Prints the longest time that a process stayed stopped, and the time until the slot matrix was right again.
"""

import random
import signal
import statistics
import time

import pytest

from tests.testbed.localcluster import LocalCluster, kill, state_of

SLICE_S, TIMES = 0.1, 20
NODES = {"a": "0", "b": "1"}
#: Longest time until the slot matrix is right again, seconds.
RIGHT_S = 5.0


def slots(cluster):
    """Return the slot of each job that is in the matrix."""
    jobs = cluster.view().get("jobs", {})
    return {job: about["slot"] for job, about in jobs.items() if about["slot"] is not None}


@pytest.mark.parametrize("part", ["manager", "node", "rank", "cut"])
def test_jobs_part_killed_go_on(part, tmp_path, seed):
    dice = random.Random(seed)
    stopped, right = zip(*(strike_once(part, tmp_path / str(n), dice) for n in range(TIMES)), strict=True)
    print(
        f"{part}: stopped for {statistics.median(stopped):.3f} s (half), {max(stopped):.3f} s (most; two slices are "
        f"{2 * SLICE_S:g} s); matrix right after {statistics.median(right):.2f} s (half), {max(right):.2f} s (most)"
    )
    assert max(right) <= RIGHT_S


def strike_once(part, directory, dice):
    """Return (longest time that a process stayed stopped, time until the matrix was right)."""
    directory.mkdir()
    with LocalCluster(directory, NODES, slice_s=SLICE_S, relayed=part == "cut") as cluster:
        cluster.start()
        jobs = {
            job: [cluster.spin(job, rank, 2, node, 3.0) for rank, node in enumerate(NODES)] for job in "xy"
        }
        cluster.wait(lambda: sorted(slots(cluster).values()) == [0, 1])
        expected = slots(cluster)
        time.sleep(dice.uniform(0.2, 0.5))
        stopped = jobs["x"] + jobs["y"]
        if part == "manager":
            kill(cluster.manager)
        elif part == "node":
            kill(cluster.nodes["a"])
            stopped = [both[0] for both in jobs.values()]
        elif part == "cut":
            cluster.relay.cut()
        else:
            # The other rank of the job is terminated, as `mpiexec` does; then the other job has the machine.
            first, second = jobs.pop("x")
            kill(first)
            second.terminate()
            second.send_signal(signal.SIGCONT)
            second.wait()
            stopped, expected = jobs["y"], {"y": 0}
        stopped_s = seconds_stopped(cluster, stopped)
        begun = time.monotonic()
        mends = {"manager": cluster.start_manager, "node": lambda: cluster.start_node("a")}
        if part != "rank":
            (mends.get(part) or cluster.relay.mend)()
        cluster.wait(lambda: slots(cluster) == expected, within_s=20.0)
        right_s = time.monotonic() - begun
        assert [process.wait(60) for both in jobs.values() for process in both] == [0] * (2 * len(jobs))
        return stopped_s, right_s


def seconds_stopped(cluster, processes):
    """Return the seconds until no process has been stopped for three slices."""
    started = last = time.monotonic()
    while time.monotonic() - last < 3 * SLICE_S:
        if any(state_of(process) == "T" for process in processes):
            last = time.monotonic()
        assert last - started <= 10.0, f"a process stays stopped; the daemons said:\n{cluster.log()}"
        time.sleep(0.002)
    return last - started
