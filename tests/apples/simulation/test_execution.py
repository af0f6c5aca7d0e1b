"""A run under changing conditions: times of the quiet scenario, which can be worked out by hand.

Start-up on P hosts: 2 s for the processes, 0.1 s a look-up one after the other, one sweep; then the loop.
"""

from dataclasses import replace

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.simulation.execution import MockJob, execute
from tests.transcripts import recorded


def changed(scenario, *, cpu=None, standing=None, **parts):
    """The scenario with other values of its parts, of CPU type `one`, or with standing processes."""
    parts = {name: replace(getattr(scenario, name), **values) for name, values in parts.items()}
    scenario = replace(scenario, **parts)
    if cpu:
        types = {**scenario.hosts.cpu_types, "one": replace(scenario.hosts.cpu_types["one"], **cpu)}
        scenario = replace(scenario, hosts=replace(scenario.hosts, cpu_types=types))
    if standing:
        scenario = replace(scenario, loads={"none": replace(scenario.loads["none"], standing=standing)})
    return scenario


@pytest.fixture
def run(quiet, quiet_grid, chain, competitors):
    """Execute a chain of ranks of these rows on a grid of as many hosts, or `on` some of them."""

    def execution(
        rows, scenario=quiet, *, on=None, competitors_of=(), dies=None, bytes_per_row=0.0, at=0.0, **more
    ):
        shape = {name: more.pop(name) for name in ("cpu_type", "slots", "sites", "seed") if name in more}
        grid = quiet_grid(len(rows) if on is None else max(on) + 1, scenario, **shape)
        for host, count, begin, end, *memory in competitors_of:
            competitors(grid, host, count, begin, end, *memory)
        if dies is not None:
            grid.fail_host(*dies)
        job = {"iterations": 10, "messages": 0.0, "exchanged_bytes": 0.0} | more
        ranks = chain(grid, *rows, hosts=on, bytes_per_row=bytes_per_row)
        return execute(grid, MockJob(chain=ranks, **job), at, grid.next_run())

    return execution


@recorded("apples/simulation/executions.txt", "why", "changes", "job")
def test_times_of_a_run_are_as_recorded(quiet, run, answered, why, changes, job):
    job["competitors_of"] = job.pop("competitors", ())
    done = run(scenario=changed(quiet, **changes), **job)
    ended = done.ended - job.get("at", 0.0)
    lines = [f"ended after {ended:.4g} s and {done.iterations} iterations"]
    if done.lost_host is not None:
        lines.append(f"host {done.lost_host} was lost")
    for name in ("setup_s", "compute_s", "communicate_s", "wait_s"):
        lines.append(
            f"{name}: " + ", ".join(f"{seconds:.4g}" for seconds in np.round(getattr(done, name), 6))
        )
    answered(lines)


def test_standing_processes_on_unknown_hosts_are_refused(quiet, quiet_grid):
    with pytest.raises(ConfigError, match=r"standing: no host 'h7' in grid 'toy'; legal are h0"):
        quiet_grid(1, changed(quiet, standing={"h7": 1}))


def test_noisy_run_is_the_same_to_the_last_bit_for_the_same_seed(quiet, run):
    noisy = changed(
        quiet,
        hosts={"speed_spread": 0.05, "run_spread": 0.02, "sweep_spread": 0.1},
        network={"transfer_spread": 0.2, "stall_probability": 0.01, "stall_s": 0.2, "link_spread": 0.1},
    )
    job = {"messages": 2.0, "exchanged_bytes": 1e4, "iterations": 100}
    first, again, other = (run([40.0] * 5, noisy, seed=seed, **job).ended for seed in (7, 7, 8))
    assert first == again != other


def test_what_ranks_did_adds_up_to_how_far_they_came(run):
    job = {"messages": 1.0, "exchanged_bytes": 1e4, "competitors_of": [(2, 3, 4.0, 9.0)]}
    done = run([40.0, 70.0, 20.0, 30.0], sites=2, **job)
    total = done.setup_s + done.compute_s + done.communicate_s + done.wait_s
    assert total.max() == pytest.approx(done.ended - 0.5)
    assert np.ptp(total) < 0.01
