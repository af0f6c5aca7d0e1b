"""Jobs on the simulated cluster: what each policy makes of them, in small."""

import pytest

from apples.coscheduling.classes import FcsConstants, ProcessClass
from apples.coscheduling.events import Process
from apples.coscheduling.messagedriven import MessageDriven, MessageDrivenConstants
from apples.coscheduling.policies import CoschedulingConstants, policy_kind
from apples.errors import ConfigError
from apples_experiments.cluster import layout as at
from apples_experiments.cluster.simulation import Simulation, simulate
from apples_experiments.cluster.workload import least_loaded, moved
from tests.transcripts import recorded

QUICK = CoschedulingConstants(
    fcs=FcsConstants(slice_s=0.02, cslots_min=3),
    message_driven=MessageDrivenConstants(slice_s=1.0, gmet_s=0.2),
)


def test_job_alone_takes_its_iterations_times_computation_and_exchange(machine, ring):
    outcome = simulate(machine(), [ring(iterations=1000)], "batch", seed=1)
    assert outcome.turnaround_s == pytest.approx(1000 * 1.1e-3, abs=1e-6)
    reading = outcome.readings[Process("ring", 0)]
    assert reading.t_cpu_s == pytest.approx(1.0)
    assert reading.t_comm_s == pytest.approx(0.1)
    assert reading.c_comm == 1000


def test_batch_runs_one_after_the_other_and_gang_both_at_half_speed(machine, ring):
    jobs = [ring("a"), ring("b")]
    batch = simulate(machine(), jobs, "batch", seed=1, constants=QUICK)
    gang = simulate(machine(), jobs, "gang", seed=1, constants=QUICK)
    assert batch.jobs["a"].finished_s == pytest.approx(1.1, abs=0.01)
    assert batch.jobs["b"].finished_s == pytest.approx(2.2, abs=0.05)
    assert min(job.finished_s for job in gang.jobs.values()) > 2.1
    assert batch.mean_response_s < gang.mean_response_s


@pytest.mark.parametrize("policy", ["batch", "gang", "fcs", "message-driven"])
def test_jobs_of_one_user_leave_another_half(machine, ring, policy):
    jobs = [ring(f"junk{n}", (0,), user=1, iterations=9000) for n in range(20)]
    mine = ring("mine", (0,), user=2, iterations=9000)
    alone = simulate(machine(nodes=1), [mine], policy, seed=1, constants=QUICK)
    shared = simulate(machine(nodes=1), [*jobs, mine], policy, seed=1, constants=QUICK)
    assert alone.jobs["mine"].finished_s / shared.jobs["mine"].finished_s >= 0.45


def test_polling_out_of_step_is_slow_and_spinning_helps(machine, ring):
    nodes = tuple(range(8))
    jobs = [ring(name, nodes, iterations=500) for name in "ab"]
    polling = simulate(machine(nodes=8), jobs, "uncoordinated", seed=1)
    spinning = simulate(machine(nodes=8), jobs, "spin-block", seed=1)
    assert polling.turnaround_s > 1.5 * spinning.turnaround_s


def test_imbalanced_jobs_that_complement_each_other_overlap(machine, ring):
    jobs = [ring("a", compute_s=(1e-3, 3e-3)), ring("b", compute_s=(3e-3, 1e-3))]
    policies = ("gang", "spin-block", "share-by-need", "fcs")
    done = {p: simulate(machine(), jobs, p, seed=1, constants=QUICK) for p in policies}
    assert done["spin-block"].turnaround_s < 0.75 * done["gang"].turnaround_s
    assert done["share-by-need"].turnaround_s < 0.9 * done["gang"].turnaround_s
    assert done["fcs"].turnaround_s < 0.75 * done["gang"].turnaround_s
    wanted = {"a": ("F", "DC"), "b": ("DC", "F")}
    assert {p: c.value for p, c in done["fcs"].classes.items()} == {
        Process(job, rank): wanted[job][rank] for job in wanted for rank in (0, 1)
    }


def test_silent_jobs_do_not_care(machine, ring):
    jobs = [ring("quiet", compute_s=0.1, iterations=5, pattern="none"), ring("loud")]
    outcome = simulate(machine(), jobs, "fcs", seed=1, constants=QUICK)
    assert outcome.classes[Process("quiet", 0)] is ProcessClass.DC
    assert outcome.classes[Process("loud", 0)] is ProcessClass.CS
    assert outcome.readings[Process("quiet", 0)].c_comm == 0


def test_ranks_migrate_to_idle_processors(machine, ring):
    """Three ranks on two processors: each gets two thirds of one, which none would without moving."""
    jobs = [ring(name, nodes=(0,), compute_s=0.1, iterations=20, pattern="none") for name in "abc"]
    outcome = simulate(machine(nodes=1, processors=2), jobs, "spin-block", seed=1)
    for job in outcome.jobs.values():
        assert job.finished_s == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize(
    "policy", ["batch", "gang", "spin-block", "fcs", "share-by-need", "message-driven", "uncoordinated"]
)
def test_same_seed_gives_the_same_bits_and_another_does_not(machine, ring, policy):
    noisy = machine(noise_burst_s=1e-3, noise_mean_s=0.05, heartbeat_spread_s=1e-3, start_spread_s=0.01)
    jobs = [ring("a", variation=0.2, iterations=300), ring("b", iterations=300, pattern="barrier")]
    runs = [simulate(noisy, jobs, policy, seed=seed, constants=QUICK) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("policy", ["batch", "gang", "fcs"])
def test_long_strides_change_nothing(machine, ring, policy):
    noisy = machine(
        nodes=4,
        processors=2,
        noise_burst_s=3e-4,
        noise_mean_s=0.05,
        heartbeat_spread_s=1e-3,
        manager_s=1e-4,
        switch_s=2e-5,
        start_spread_s=0.01,
    )
    nodes = (0, 0, 1, 1, 2, 2, 3, 3)
    jobs = [ring("a", nodes, variation=0.3, iterations=600), ring("b", nodes, iterations=600)]
    outcomes = []
    for again in (0, at.NEVER):
        sim = Simulation(noisy, jobs, policy_kind(policy), QUICK, seed=3)
        sim._views.memory[at.K_TRY] = again
        outcomes.append(sim.run())
    assert outcomes[0] == outcomes[1]


def test_windows_of_any_length_give_the_same(machine, ring):
    jobs = [ring("a", variation=0.3), ring("b", pattern="barrier")]
    outcomes = []
    for window in (100_000, 7_000):
        sim = Simulation(machine(), jobs, policy_kind("spin-block"), QUICK, seed=3)
        sim._views.memory[at.K_LOOKAHEAD] = window
        outcomes.append(sim.run())
    assert outcomes[0].readings == outcomes[1].readings
    assert outcomes[0].jobs == outcomes[1].jobs


def test_work_follows_from_the_job_not_from_the_schedule(machine, ring):
    jobs = [ring("a", variation=0.4, iterations=200), ring("b", iterations=200)]
    seen = [
        simulate(machine(), jobs, policy, seed=5, constants=QUICK).readings[Process("a", 1)].t_cpu_s
        for policy in ("batch", "gang", "spin-block", "uncoordinated", "message-driven")
    ]
    assert seen == pytest.approx([seen[0]] * 5, abs=1e-9)


def test_time_held_stopped_is_no_communication(machine, ring):
    jobs = [ring("a"), ring("b")]
    gang = simulate(machine(), jobs, "gang", seed=1, constants=QUICK)
    assert gang.readings[Process("a", 0)].t_comm_s == pytest.approx(0.1, abs=0.02)


def test_working_set_makes_switches_dear(machine, ring):
    def turnaround(refill_s):
        jobs = [ring(name, refill_s=refill_s) for name in "ab"]
        return simulate(machine(), jobs, "gang", seed=1, constants=QUICK).turnaround_s

    # about 110 slots of 20 ms, each a millisecond shorter
    assert turnaround(1e-3) - turnaround(0.0) == pytest.approx(0.11, abs=0.03)


def test_cold_caches_slow_computations_down_by_no_more_than_their_share(machine, ring):
    """Sets far larger than what a slot brings in: every computation is slowed down, and nothing is paid up front."""

    def turnaround(**caches):
        jobs = [ring(name, **caches) for name in "ab"]
        return simulate(machine(), jobs, "gang", seed=1, constants=QUICK).turnaround_s

    # of 2.2 s two are computation
    slower = turnaround(refill_s=100.0, cold_slowdown=0.25) - turnaround()
    assert slower == pytest.approx(0.25 * 2.0, abs=0.05)


def test_computation_that_is_interrupted_often_is_slowed_down_no_further(machine, ring):
    """A tenth of a second in slots of 20 ms: what was left of its misses is not charged anew with every slot."""

    def turnaround(**caches):
        jobs = [ring(name, compute_s=0.1, iterations=20, **caches) for name in "ab"]
        return simulate(machine(), jobs, "gang", seed=1, constants=QUICK).turnaround_s

    slower = turnaround(refill_s=100.0, cold_slowdown=0.25) - turnaround()
    assert slower == pytest.approx(0.25 * 4.0, abs=0.1)


def test_working_set_that_nobody_throws_out_is_brought_in_once(machine, ring):
    alone = [
        simulate(machine(), [ring("a", refill_s=s)], "gang", seed=1, constants=QUICK).turnaround_s
        for s in (0.0, 0.1)
    ]
    assert alone[1] - alone[0] == pytest.approx(0.1, abs=0.005)


def test_node_managers_cost_processor_time_and_heartbeats_come_late(machine, ring):
    jobs = [ring("a"), ring("b")]

    def turnaround(**changes):
        return simulate(machine(**changes), jobs, "gang", seed=1, constants=QUICK).turnaround_s

    assert turnaround(manager_s=1e-3) > turnaround() + 0.05
    assert turnaround(heartbeat_spread_s=1e-3) > turnaround() + 0.02


def test_jobs_arrive_when_they_do_and_wait_their_turn(machine, ring):
    jobs = [ring("a"), ring("b"), ring("late", arrival_s=3.0)]
    outcome = simulate(machine(), jobs, "uncoordinated", seed=1, at_once=1)
    assert outcome.jobs["b"].wait_s == pytest.approx(1.1, abs=0.01)
    assert outcome.jobs["late"].wait_s == 0
    assert outcome.mean_wait_s == pytest.approx(1.1 / 3, abs=0.01)
    assert outcome.jobs["late"].response_s == pytest.approx(1.1, abs=0.01)


def test_no_node_has_more_jobs_than_the_degree_and_the_next_goes_where_the_fewest_are(machine, ring):
    """Two jobs of one node each run side by side; the wide one waits for both, the last one for a place beside it."""
    jobs = [ring("a", (0, 0)), ring("b", (0, 0)), ring("wide", (0, 1)), ring("last", (0, 0))]
    outcome = simulate(machine(processors=2), jobs, "uncoordinated", seed=1, degree=1)
    assert outcome.jobs["b"].wait_s == 0
    assert outcome.jobs["wide"].wait_s == pytest.approx(1.1, abs=0.01)
    assert outcome.jobs["last"].wait_s == pytest.approx(2.2, abs=0.02)
    together = simulate(machine(processors=2), jobs, "uncoordinated", seed=1, degree=2)
    assert {name: job.wait_s > 0 for name, job in together.jobs.items()} == {
        "a": False,
        "b": False,
        "wide": False,
        "last": True,
    }


def test_nodes_with_the_fewest_jobs_come_first(ring):
    assert least_loaded([2, 0, 1, 0], 3) == (1, 3, 2)
    assert moved(ring(nodes=(0, 0, 1)), [5, 1, 0]).nodes == (2, 2, 1)


def test_pieces_of_a_message_have_no_computation_between_them(machine, ring):
    outcome = simulate(machine(), [ring(iterations=4000, pieces=4)], "batch", seed=1)
    assert outcome.turnaround_s == pytest.approx(1000 * (1e-3 + 4e-4), rel=1e-3)
    assert outcome.readings[Process("ring", 0)].t_cpu_s == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_message_asks_once_for_the_processor_however_many_pieces_it_goes_in(machine, ring, seed, monkeypatch):
    """The status is ahead of the message; with one for each of the eight pieces there were 75 to 178 requests."""
    requests = []
    monkeypatch.setattr(MessageDriven, "_message", lambda policy, event: requests.append(event))
    jobs = [ring(name, nodes=(0, 1), iterations=8000, pieces=8, variation=0.1) for name in "ab"]
    small = machine(nodes=2, processors=1, share_interval_s=0.1, timer_spread_s=0.9)
    simulate(small, jobs, "message-driven", seed=seed, constants=QUICK)
    assert 0 < len(requests) < 50


def test_minimum_in_cpu_time_is_told_to_the_policy(machine, ring):
    nodes = tuple(range(4))
    jobs = [ring(name, nodes, iterations=3000) for name in "ab"]
    small = machine(nodes=4, share_interval_s=0.1, timer_spread_s=0.9)
    turnarounds = [
        simulate(
            small,
            jobs,
            "message-driven",
            seed=1,
            constants=CoschedulingConstants(
                message_driven=MessageDrivenConstants(slice_s=1.0, gmet_s=gmet_s, gmet_of=gmet_of)
            ),
        ).turnaround_s
        for gmet_s, gmet_of in ((0.1, "cpu"), (50.0, "cpu"), (50.0, "wall"))
    ]
    # a minimum that nobody ever has leaves the timers alone, whatever it is counted in
    assert turnarounds[1] == turnarounds[2] != turnarounds[0]


def test_message_driven_gives_unscheduled_jobs_their_hundredth_only(machine, ring):
    """Two silent jobs: what the scheduled one leaves, the other does not get."""
    jobs = [ring(name, nodes=(0,), compute_s=0.1, iterations=10, pattern="none") for name in "ab"]
    one = machine(nodes=1, share_interval_s=0.1)
    constants = CoschedulingConstants(message_driven=MessageDrivenConstants(slice_s=100.0, gmet_s=1.0))
    outcome = simulate(one, jobs, "message-driven", seed=1, constants=constants)
    assert outcome.jobs["a"].finished_s == pytest.approx(1 / 0.99, abs=0.02)
    assert outcome.jobs["b"].finished_s == pytest.approx(1 / 0.99 + 0.99, abs=0.03)


def test_messages_bring_the_ranks_of_a_job_together(machine, ring):
    nodes = tuple(range(8))
    jobs = [ring(name, nodes, iterations=1000) for name in "ab"]
    small = machine(nodes=8, share_interval_s=0.1, timer_spread_s=0.1)
    alone = simulate(small, jobs, "uncoordinated", seed=1)
    driven = simulate(small, jobs, "message-driven", seed=1, constants=QUICK)
    assert driven.turnaround_s < alone.turnaround_s


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_asks_for_the_processor_by_old_mail(machine, ring, seed):
    """What came while its sender was scheduled would move nodes back and forth: 55 s instead of 8 with seed 2."""
    jobs = [ring(name, (0, 1, 2, 3), iterations=3000, variation=0.3) for name in "ab"]
    small = machine(nodes=4, share_interval_s=0.1, timer_spread_s=0.1)
    assert simulate(small, jobs, "message-driven", seed=seed, constants=QUICK).turnaround_s < 10.0


def test_job_that_is_scheduled_before_it_reports_a_message_goes_on_as_it_was(machine, ring):
    """Nothing of a computation is left out because its rank was about to report a message."""
    nodes = tuple(range(8))
    jobs = [ring(name, nodes, iterations=1000, variation=0.3) for name in "abc"]
    small = machine(nodes=8, share_interval_s=0.05, timer_spread_s=0.1)
    driven, batch = (
        simulate(small, jobs, policy, seed=1, constants=QUICK).readings
        for policy in ("message-driven", "batch")
    )
    assert {p: r.t_cpu_s for p, r in driven.items()} == pytest.approx(
        {p: r.t_cpu_s for p, r in batch.items()}, abs=1e-9
    )


@recorded("experiments/cluster_problems.txt", "machines", "jobs", "policy", "options")
def test_what_is_wrong_is_said_all_at_once(machine, ring, answered, machines, jobs, policy, options):
    with pytest.raises(ConfigError) as refused:
        simulate(machine(**machines), [ring(**job) for job in jobs], policy, seed=1, **options)
    answered(str(refused.value))


def test_quanta_are_those_of_linux(machine):
    """About 50 ms whatever the ticks, and twice that for the most favoured."""
    assert [machine(ticks_per_s=hz).quantum_ticks(0) for hz in (100, 250, 500, 1024, 4096)] == [
        6,
        11,
        21,
        41,
        81,
    ]
    assert machine(ticks_per_s=1024).quantum_ticks(-20) == 81
