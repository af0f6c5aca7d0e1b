"""From a generated workload to jobs: run times in isolation are exact, kinds say what an iteration is."""

import pytest

from apples.coscheduling.policies import CoschedulingConstants
from apples.errors import ConfigError
from apples_experiments.dynamicjobs.jobs import JobKind, bsp_jobs, drawn, loaded, shortened
from apples_experiments.dynamicjobs.running import Site, run
from apples_experiments.lublin import generate

RING = JobKind(name="ring", step_s=1.06e-3, latency_s=60e-6)
UNEVEN = JobKind(name="uneven", step_s=2.12e-3, shares=(1.0, 1.0, 0.5, 0.5), latency_s=60e-6)
SILENT = JobKind(name="silent", step_s=1.0, pattern="none", latency_s=60e-6)


def length_s(job):
    """Of the slowest rank alone."""
    return job.iterations * (max(job.compute_s) + (0.0 if job.pattern == "none" else job.latency_s))


@pytest.mark.parametrize("kind", [RING, UNEVEN, SILENT])
def test_job_takes_in_isolation_what_the_workload_says(machine, kind):
    trace = shortened(generate(200, 4, 1), 0.01)
    jobs = bsp_jobs(machine, trace, [kind] * 200)
    assert [length_s(job) for job in jobs] == pytest.approx(trace.run.tolist(), abs=1e-6)
    assert [len(job.nodes) for job in jobs] == trace.procs.tolist()
    assert jobs[0].arrival_s == 0.0
    assert jobs[-1].arrival_s == pytest.approx(trace.submit[-1] - trace.submit[0])


def test_slow_ranks_fill_a_node_and_the_exchange_takes_all_the_same_time(machine):
    trace = generate(200, 4, 1)
    job = next(job for job in bsp_jobs(machine, trace, [UNEVEN] * 200) if len(job.nodes) == 4)
    slow, fast = job.compute_s[0], job.compute_s[2]
    assert job.compute_s == (slow, slow, fast, fast)
    assert fast + job.latency_s == pytest.approx((slow + job.latency_s) / 2)


def test_serial_job_talks_to_nobody(machine):
    trace = generate(200, 4, 1)
    jobs = bsp_jobs(machine, trace, [RING] * 200)
    assert {job.pattern for job in jobs if len(job.nodes) == 1} == {"none"}
    assert {job.pattern for job in jobs if len(job.nodes) > 1} == {"ring"}


def test_load_is_exact_whichever_way_it_is_varied():
    trace = generate(100, 8, 1)
    by_arrivals, by_runs = (loaded(trace, 0.8, vary=way) for way in ("arrivals", "runtimes"))
    assert by_arrivals.offered_load(8) == pytest.approx(0.8)
    assert by_runs.offered_load(8) == pytest.approx(0.8)
    assert (by_arrivals.run == trace.run).all()
    assert (by_runs.submit == trace.submit).all()
    assert shortened(trace, 0.01).offered_load(8) == pytest.approx(trace.offered_load(8))


def test_what_is_no_load():
    trace = generate(10, 8, 1)
    with pytest.raises(ConfigError, match="load is varied by 'luck'; legal are arrivals, runtimes"):
        loaded(trace, 0.8, vary="luck")
    for way in ("arrivals", "runtimes"):
        with pytest.raises(ConfigError, match=r"an offered load of 0.0; a number above 0 is legal"):
            loaded(trace, 0.0, vary=way)


def test_kinds_are_drawn_alike_for_a_seed():
    one, same, other = (drawn((RING, UNEVEN, SILENT), 300, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert all(70 < one.count(kind) < 130 for kind in (RING, UNEVEN, SILENT))


@pytest.mark.parametrize("policy", ["batch", "gang", "spin-block", "fcs"])
def test_alone_on_the_machine_a_job_takes_its_run_time_under_every_policy(machine, policy):
    """Jobs come one after the other; a start waits for a heartbeat, a tenth of a second at most."""
    trace = loaded(shortened(generate(12, 4, 3), 0.01), 0.01, vary="arrivals")
    site = Site(machine=machine, constants=CoschedulingConstants(), mpl=3, increment_s=3.0)
    found = run(site, policy, trace, bsp_jobs(machine, trace, [UNEVEN] * 12), seed=1)
    over = found.response - found.run
    alone = found.submit[1:] > found.finish[:-1]
    assert alone.sum() > 6
    assert (over[1:][alone] > -1e-5).all()
    assert (over[1:][alone] < 0.105 + 0.01 * found.run[1:][alone]).all()
