"""Orders written into the simulator's memory, and the monitors' pages read from it."""

import numpy as np
import pytest

from apples.coscheduling.events import Order, Process, Wait
from apples_experiments.cluster import layout as at
from apples_experiments.cluster.building import build
from apples_experiments.cluster.nodemanagers import MonitorPages, OrderWriter

A, B = Process("ring", 0), Process("ring", 1)


@pytest.fixture
def views(machine, ring):
    return build(machine(), [ring()], np.random.default_rng(1), spin_s=1e-4, messages=False)


def wants(views, p):
    return [int(views.processes[p, field]) for field in (at.WANTS_RUN, at.WANTS_POLLS, at.WANTS_NICE)]


def test_what_is_wanted_is_written_down(views):
    orders = OrderWriter(views, {A: 4, B: 5}, favoured_nice=-20)
    orders.write(
        [
            {A: Order(run=False)},
            {},
            {B: Order(wait=Wait.SPIN_BLOCK, favoured=True)},
        ]
    )
    assert wants(views, 4) == [0, 1, 0]
    assert wants(views, 5) == [1, 0, -20]


def test_orders_that_recur_are_written_again(views):
    orders = OrderWriter(views, {A: 4, B: 5}, favoured_nice=-20)
    stop, run = {A: Order(run=False)}, {A: Order()}
    for answer, running in ((stop, 0), (run, 1), (stop, 0), (run, 1)):
        orders.write([answer])
        assert wants(views, 4)[0] == running


def test_nothing_wanted_is_nothing_written(views):
    before = views.processes.copy()
    OrderWriter(views, {A: 4}, favoured_nice=-20).write([{}, {}])
    assert (views.processes == before).all()


def test_pages_go_to_the_nodes_of_their_ranks(views, ring):
    views.processes[5, [at.T_CPU, at.T_COMM, at.C_COMM]] = 2_000_000_000, 500_000_000, 7
    seen = MonitorPages(views, [None, None, None, None, A, B]).by_node(0, [ring()])
    assert [list(of_node) for of_node in seen] == [[A], [B]]
    assert seen[1][B] == (2.0, 0.5, 7)


def test_no_job_no_pages(views):
    assert [*MonitorPages(views, [None, None, None, None, A, B]).by_node(0, [])] == [{}, {}]
