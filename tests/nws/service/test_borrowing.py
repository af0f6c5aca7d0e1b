"""A new host's forecasts start from the errors of other hosts, those with its CPU model first."""

from __future__ import annotations

import numpy as np
import pytest

from nws.series import Series

from .helpers import START, batch, kill, registered

#: CPU model of hosts, and the relative error of their series.
MODELS = {"calm": 0.01, "wild": 0.3}
HOSTS = {f"{model}{i}": model for model in MODELS for i in range(4)}


def walk(seed, n, error=0.1):
    return 0.5 * np.exp(error * np.random.default_rng(seed).standard_normal(n))


def feed(service, host, values, resource="cpu.new"):
    samples = [(f"{resource}@{host}", START + 10.0 * i, float(v)) for i, v in enumerate(values)]
    service.put(batch(*samples), as_host=None)


def width(service, clock, host, resource="cpu.new"):
    """Return the length of the first 80 % interval of a series."""
    name = f"{resource}@{host}"
    clock.wall = START
    (found,) = service.forecasts([name], over_s=[10.0])[Series.parse(name)].outlooks
    return found.high - found.low


@pytest.fixture
def learnt(start):
    """A service with four hosts of each CPU model that have learnt."""
    service = start()
    for i, (host, model) in enumerate(HOSTS.items()):
        registered(service, host, cpu_model=model)
        feed(service, host, walk(i, 150, MODELS[model]))
    return service


def new_widths(service, clock):
    """Return the first widths of new hosts: of each CPU model, and of an unknown one."""
    for host, changes in (
        ("a", {"cpu_model": "calm"}),
        ("b", {"cpu_model": "wild"}),
        ("c", {}),
        ("d", {"cpu_model": "other"}),
    ):
        registered(service, host, **changes)
        feed(service, host, [0.5])
    return [width(service, clock, host) for host in "abcd"]


def test_new_host_borrows_from_hosts_of_its_cpu_model(learnt, clock):
    calm, wild, unknown, other = new_widths(learnt, clock)
    feed(learnt, "a", [0.5], "x.load")
    alone = width(learnt, clock, "a", "x.load")
    assert calm < 0.3 * unknown
    assert unknown < wild < alone
    # a model that no host with errors has borrows from all, as an unknown one does
    assert other == unknown


def test_new_host_borrows_the_same_after_a_restart(learnt, start, clock):
    learnt.close()
    second = start()
    assert second.counters().restored == "saved"
    before = new_widths(second, clock)
    kill(second)
    third = start()
    assert third.counters().restored == "saved"
    assert [width(third, clock, host) for host in "abcd"] == before


def test_short_series_borrows_when_the_last_day_is_replayed(start, learnt, store, clock):
    new_widths(learnt, clock)
    learnt.close()
    store.with_name(f"{store.name}.battery").unlink()
    second = start()
    assert second.counters().restored == "replayed"
    calm, wild = (width(second, clock, host) for host in "ab")
    assert calm < 0.3 * wild
