"""A run under changing conditions: every time here is worked out by hand from the quiet scenario.

Start-up on P hosts: 2 s for the processes, 0.1 s a look-up one after the other, one sweep; then the loop.
"""

from dataclasses import replace

import numpy as np
import pytest

from apples.errors import ConfigError
from apples.simulation.execution import MockJob, execute


def run(grid, ranks, *, iterations=10, exchanged_bytes=0.0, messages=0.0, at=0.0):
    job = MockJob(chain=ranks, iterations=iterations, messages=messages, exchanged_bytes=exchanged_bytes)
    return execute(grid, job, at, grid.next_run())


def no_lookups(scenario):
    return replace(scenario, startup=replace(scenario.startup, lookup_s=0.0))


def test_one_rank_alone_only_starts_and_computes(quiet_grid, chain):
    grid = quiet_grid(1)
    done = run(grid, chain(grid, 100.0))
    assert done.compute_s == pytest.approx([10.0])
    assert done.setup_s[0] == pytest.approx(2.0 + 1.0, abs=1e-3)
    assert done.wait_s[0] == done.communicate_s[0] == 0.0
    assert done.ended == pytest.approx(2.0 + 11.0 + 0.5, abs=1e-3)


def test_load_that_comes_during_the_run_is_integrated(quiet_grid, chain, competitors):
    grid = quiet_grid(1, no_lookups(quiet_grid(1).scenario))
    competitors(grid, 0, 1, 6.0, 8.0)
    busy = run(grid, chain(grid, 100.0))
    idle = run(quiet_grid(1, grid.scenario), chain(grid, 100.0))
    assert busy.ended - idle.ended == pytest.approx(1.0)


def test_processes_that_are_always_there_take_their_share_of_every_sweep_and_of_the_start(
    quiet, quiet_grid, chain
):
    standing = replace(quiet.loads["none"], standing={"h0": 1})
    scenario = replace(no_lookups(quiet), loads={"none": standing})
    grid = quiet_grid(1, scenario)
    done = run(grid, chain(grid, 100.0), at=5e4)
    assert done.compute_s == pytest.approx([20.0])
    assert done.setup_s[0] == pytest.approx(1.0 + 2.0 + 2.0, abs=1e-3)
    with pytest.raises(ConfigError, match=r"standing: no host 'h7' in grid 'toy'; legal are h0"):
        quiet_grid(1, replace(quiet, loads={"none": replace(standing, standing={"h7": 1})}))


def test_slow_kind_of_cpu_starts_later(quiet, quiet_grid, chain):
    slow = {**quiet.hosts.cpu_types, "one": replace(quiet.hosts.cpu_types["one"], start_cpu_s=4.0)}
    scenario = replace(no_lookups(quiet), hosts=replace(quiet.hosts, cpu_types=slow))
    done = run(quiet_grid(1, scenario), chain(quiet_grid(1), 100.0))
    assert done.setup_s[0] == pytest.approx(1.0 + 4.0 + 1.0, abs=1e-3)


def test_messages_are_handled_on_the_share_of_a_cpu_that_a_rank_gets(quiet, quiet_grid, chain):
    standing = replace(quiet.loads["none"], standing={"h1": 3})
    network = replace(quiet.network, message_cpu_s=0.01)
    scenario = replace(no_lookups(quiet), loads={"none": standing}, network=network)
    grid = quiet_grid(2, scenario)
    done = run(grid, chain(grid, 50.0, 10.0), messages=2.0, at=5e4)
    # The first handles its own in 10 · 2 · 0.01 s and waits for the second, which takes four times as long
    # and whose word is a millisecond on its way, ten times.
    assert done.wait_s == pytest.approx([0.81, 0.8], rel=1e-3)
    alone = run(grid, chain(grid, 50.0), messages=2.0, at=5e4)
    assert alone.wait_s[0] == 0.0


def test_slow_kind_of_cpu_takes_longer_for_its_messages(quiet, quiet_grid, chain):
    slow = {**quiet.hosts.cpu_types, "one": replace(quiet.hosts.cpu_types["one"], message_cpu_s=0.03)}
    network = replace(quiet.network, message_cpu_s=0.01)
    scenario = replace(quiet, hosts=replace(quiet.hosts, cpu_types=slow), network=network)
    done = run(quiet_grid(2, scenario), chain(quiet_grid(2), 50.0, 50.0), messages=2.0)
    assert done.wait_s == pytest.approx([0.61, 0.61], rel=1e-3)


def test_exchanges_are_missed_only_where_what_is_swept_ahead_ends_before_they_do(quiet, quiet_grid, chain):
    scenario = replace(quiet, application=replace(quiet.application, ahead=0.75))
    grid = quiet_grid(2, scenario)
    # Three quarters of a sweep of 1 s, after a barrier of 1 ms: rows of 0.5 s are there in time.
    hidden = run(grid, chain(grid, 100.0, 100.0), exchanged_bytes=5e5)
    assert hidden.communicate_s == pytest.approx([0.0, 0.0], abs=1e-9)
    assert hidden.compute_s == pytest.approx([10.0, 10.0])
    assert hidden.ended == pytest.approx(run(grid, chain(grid, 100.0, 100.0)).ended)
    # The first exchange begins with the run; then each is missed for 1.5 - 0.75 s, less the barrier.
    late = run(grid, chain(grid, 100.0, 100.0), exchanged_bytes=1.5e6)
    assert late.communicate_s == pytest.approx([0.75 + 9 * 0.749] * 2, abs=2e-3)
    assert late.compute_s == pytest.approx([10.0, 10.0])
    seen = run(quiet_grid(2, quiet), chain(grid, 100.0, 100.0), exchanged_bytes=1.5e6)
    assert seen.communicate_s == pytest.approx([10 * 1.5] * 2, rel=1e-3)


def test_nothing_is_under_way_while_a_checkpoint_is_written(quiet, quiet_grid, chain):
    scenario = replace(quiet, application=replace(quiet.application, ahead=1.0))

    def took(**facts):
        grid = quiet_grid(2, scenario)
        ranks = chain(grid, 100.0, 100.0)
        job = MockJob(chain=ranks, iterations=4, messages=0.0, exchanged_bytes=5e5, **facts)
        return execute(grid, job, 0.0, grid.next_run()).ended

    # Rows that were hidden before are waited for at each of two checkpoints, the barrier apart.
    assert took(checkpoint_every=2, checkpoint_s=3.0) - took() == pytest.approx(
        2 * (3.0 + 0.5 - 0.001), abs=1e-3
    )


def test_second_cpu_takes_the_first_competitor(quiet_grid, chain, competitors):
    grid = quiet_grid(1, cpu_type="two")
    competitors(grid, 0, 1, -10.0, 1e4)
    assert run(grid, chain(grid, 100.0)).compute_s == pytest.approx([10.0])
    competitors(grid, 0, 2, -10.0, 1e4)
    assert run(grid, chain(grid, 100.0)).compute_s == pytest.approx([20.0])


def test_memory_bus_slows_what_no_sensor_sees(quiet, quiet_grid, chain, competitors):
    grid = quiet_grid(1, replace(quiet, hosts=replace(quiet.hosts, bus_slowdown=0.1)), cpu_type="two")
    competitors(grid, 0, 1, -10.0, 1e4)
    assert run(grid, chain(grid, 100.0)).compute_s == pytest.approx([11.0])


def test_ranks_of_one_host_share_its_cpus(quiet_grid, chain):
    grid = quiet_grid(1, slots=2)
    assert run(grid, chain(grid, 50.0, 50.0, hosts=[0, 0])).compute_s == pytest.approx([10.0, 10.0])


def test_rows_outside_memory_are_a_hundred_times_slower(quiet_grid, chain):
    grid = quiet_grid(1)
    inside = run(grid, chain(grid, 80.0, bytes_per_row=1e6)).compute_s[0]
    half_outside = run(grid, chain(grid, 160.0, bytes_per_row=1e6)).compute_s[0]
    assert inside == pytest.approx(8.0)
    assert half_outside == pytest.approx(16.0 * (1 + 0.5 * 99))


def test_memory_that_others_take_during_the_run_makes_it_page(quiet_grid, chain, competitors):
    grid = quiet_grid(1, cpu_type="two")
    competitors(grid, 0, 1, 5.0, 1e6, memory=40e6)
    assert run(grid, chain(grid, 80.0, bytes_per_row=1e6)).compute_s[0] > 200


def test_neighbours_exchange_when_both_are_ready_and_all_wait_for_the_slowest(quiet_grid, chain):
    grid = quiet_grid(2)
    done = run(grid, chain(grid, 100.0, 50.0), messages=2.0, exchanged_bytes=1e5)
    exchange = 2 * 0.001 + 0.1
    assert done.compute_s == pytest.approx([10.0, 5.0])
    assert done.communicate_s == pytest.approx([10 * exchange, 10 * (exchange + 0.5)], abs=0.02)
    assert done.wait_s == pytest.approx([0.01, 0.01])


def test_rank_in_the_middle_shares_its_link_between_two_neighbours(quiet_grid, chain):
    grid = quiet_grid(3)
    done = run(grid, chain(grid, 50.0, 50.0, 50.0), exchanged_bytes=1e5)
    assert done.communicate_s == pytest.approx([2.0, 2.0, 2.0], abs=0.002)


def test_crossings_share_the_uplink(quiet_grid, chain):
    grid = quiet_grid(4, sites=2)
    together = run(grid, chain(grid, 50.0, 50.0, 50.0, 50.0, hosts=[0, 2, 1, 3]), exchanged_bytes=1e5)
    apart = run(grid, chain(grid, 50.0, 50.0, 50.0, 50.0, hosts=[0, 1, 2, 3]), exchanged_bytes=1e5)
    assert together.communicate_s[0] == pytest.approx(2.0, abs=0.02)
    assert apart.communicate_s[0] == pytest.approx(3.0, abs=0.02)


def test_barrier_takes_log2_rounds(quiet_grid, chain):
    waits = {}
    for ranks in (2, 4, 5, 8):
        grid = quiet_grid(ranks)
        waits[ranks] = run(grid, chain(grid, *[50.0] * ranks), iterations=100).wait_s[0] / 100
    assert waits == pytest.approx({2: 0.001, 4: 0.002, 5: 0.003, 8: 0.003}, rel=0.02)


def test_setup_grows_with_the_square_of_the_ranks(quiet_grid, chain):
    setup = []
    for ranks in (4, 8, 16):
        grid = quiet_grid(ranks)
        setup.append(run(grid, chain(grid, *[1.0] * ranks)).setup_s.max() - 2.0)
    assert setup[1] / setup[0] == pytest.approx(4, rel=0.05)
    assert setup[2] / setup[1] == pytest.approx(4, rel=0.05)


def test_host_that_dies_ends_the_run_and_is_named(quiet_grid, chain):
    grid = quiet_grid(3)
    grid.fail_host("h1", 5.0)
    done = run(grid, chain(grid, 100.0, 100.0, 100.0))
    assert (done.ended, done.lost_host) == (5.0, 1)
    assert done.iterations < 10


def test_host_that_dies_while_processes_start_ends_the_run_then(quiet_grid, chain):
    grid = quiet_grid(2)
    grid.fail_host("h0", 1.0)
    done = run(grid, chain(grid, 100.0, 100.0))
    assert (done.ended, done.lost_host, done.iterations) == (1.0, 0, 0)


def test_death_after_the_end_changes_nothing(quiet_grid, chain):
    grid = quiet_grid(1)
    grid.fail_host("h0", 1e6)
    assert run(grid, chain(grid, 10.0)).lost_host is None


def test_noisy_run_is_the_same_to_the_last_bit_for_the_same_seed(quiet, quiet_grid, chain):
    noisy = replace(
        quiet,
        hosts=replace(quiet.hosts, speed_spread=0.05, run_spread=0.02, sweep_spread=0.1),
        network=replace(
            quiet.network, transfer_spread=0.2, stall_probability=0.01, stall_s=0.2, link_spread=0.1
        ),
    )

    def ended(seed):
        grid = quiet_grid(5, noisy, seed=seed)
        return run(grid, chain(grid, *[40.0] * 5), messages=2.0, exchanged_bytes=1e4, iterations=100).ended

    assert ended(7) == ended(7)
    assert ended(7) != ended(8)


def test_what_ranks_did_adds_up_to_how_far_they_came(quiet_grid, chain, competitors):
    grid = quiet_grid(4, sites=2)
    competitors(grid, 2, 3, 4.0, 9.0)
    done = run(grid, chain(grid, 40.0, 70.0, 20.0, 30.0), messages=1.0, exchanged_bytes=1e4)
    total = done.setup_s + done.compute_s + done.communicate_s + done.wait_s
    assert total.max() == pytest.approx(done.ended - 0.5)
    assert np.ptp(total) < 0.01
