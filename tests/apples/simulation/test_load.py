"""Other people's processes: the same whenever one looks, as heavy as the scenario says, sudden in campaigns."""

from dataclasses import replace

import numpy as np
import pytest

from apples.simulation.hostload import CHUNK_S, Campaigns, HostLoad
from apples.simulation.scenario import CampaignTruth, LoadTruth, RegimeTruth

TRUTH = LoadTruth(
    regimes=(
        RegimeTruth(mean_stay_s=7200.0, interval_s=300.0, duration_s=600.0),
        RegimeTruth(mean_stay_s=14400.0, interval_s=None, duration_s=1.0),
    ),
    brief_interval_s=1e12,
    brief_duration_s=1.0,
    process_bytes=1e6,
    process_bytes_spread=0.5,
)


def load(seed, truth=TRUTH):
    return HostLoad(truth, np.random.default_rng(seed))


def test_asking_in_small_steps_gives_the_same_history():
    often, once = load(3), load(3)
    for until in np.linspace(0, 6 * CHUNK_S, 50):
        often.generate(until)
        often.steps()
    once.generate(6 * CHUNK_S)
    for mine, other in zip(often.steps(), once.steps(), strict=True):
        assert np.array_equal(mine.times, other.times)
        assert np.array_equal(mine.values, other.values)


def test_third_of_the_time_is_heavy_with_two_processes():
    days = 60 * 86400.0
    host = load(1)
    host.generate(days)
    mean = host.steps()[0].mean(np.zeros(1), np.array([days]))[0]
    assert mean == pytest.approx(2 / 3, rel=0.15)


def test_memory_comes_and_goes_with_the_processes():
    host = load(2)
    host.generate(CHUNK_S)
    count, held = host.steps()
    assert np.all((held.values > 1.0) == (count.values > 0.5))


def test_campaign_starts_on_its_hosts_at_one_instant():
    nobody = replace(TRUTH, regimes=TRUTH.regimes[1:])
    hosts = [load(h, nobody) for h in range(10)]
    truth = CampaignTruth(interval_s=1000.0, host_share=0.35, processes=3, duration_s=50.0)
    Campaigns(truth, np.random.default_rng(5)).add_to(hosts, 1e5)
    starts = [set(h.steps()[0].times[h.steps()[0].values == 3.0]) for h in hosts]
    everywhere = [at for at in set().union(*starts) if sum(at in s for s in starts) == 4]
    assert len(everywhere) > 50


def test_another_future_keeps_the_past_and_its_law():
    now, later = 3 * CHUNK_S + 1234.0, 600.0
    host = load(4)
    host.generate(now + later)
    rng = np.random.default_rng(6)
    past = host.steps()[0]
    others = [host.continued(now, rng) for _ in range(400)]
    for other in others:
        other.generate(now + later)
        mine = other.steps()[0]
        assert np.array_equal(mine.breaks(-CHUNK_S, now), past.breaks(-CHUNK_S, now))
        assert mine.at(now) == past.at(now)
    # a process that runs now stays for an exponential time, and others arrive meanwhile
    running, arrived = float(past.at(now)), 600.0 / 300.0 * (1 - np.exp(-1.0))
    expected = running * np.exp(-1.0) + (arrived if host.continued(now, rng)._regime == 0 else 0.0)
    counts = [float(other.steps()[0].at(now + later)) for other in others]
    assert np.mean(counts) == pytest.approx(expected, abs=0.25)
    assert len(set(counts)) > 1


def test_another_future_keeps_processes_of_fixed_length():
    host = load(5, replace(TRUTH, regimes=TRUTH.regimes[1:]))
    host.add(np.array([10.0, 200.0]), np.array([150.0, 300.0]), np.ones(2))
    host.generate(CHUNK_S)
    other = host.continued(100.0, np.random.default_rng(1))
    other.generate(CHUNK_S)
    count = other.steps()[0]
    assert count.at(np.array([149.0, 151.0, 250.0])).tolist() == [1.0, 0.0, 0.0]
