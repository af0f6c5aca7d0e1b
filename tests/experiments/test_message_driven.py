"""C2 to C6 with short benchmarks: every row and curve is there; names of benchmarks are checked."""

from dataclasses import replace

import pytest

from apples.errors import ConfigError
from apples_experiments import coscheduled_runs, message_driven
from apples_experiments.coscheduled_settings import load_settings
from apples_experiments.message_driven_jobs import queue, workload


@pytest.fixture
def small(monkeypatch):
    """Benchmarks a thousandth as long, times in proportion, one seed, everything in this process."""
    full = load_settings()
    own = full.message_driven
    driven = replace(
        own,
        machine=replace(own.machine, share_interval_s=0.01, start_spread_s=0.0, timer_spread_s=0.01),
        seeds=(1,),
        benchmarks={
            name: replace(
                b,
                operations={k: v / 1000 for k, v in b.operations.items()},
                exchanges={k: max(1, v // 200) for k, v in b.exchanges.items()},
            )
            for name, b in own.benchmarks.items()
        },
        slice_s=0.15,
        gmet_s=0.05,
        gmet_sweep=replace(own.gmet_sweep, slice_s=0.3, gmets_s=(0.02, 0.05)),
        slice_sweep=replace(own.slice_sweep, gmet_s=0.05, slices_s=(0.15, 0.3)),
        queue=replace(own.queue, short=8, gmet_s=0.02, slices_s=(0.1,), degrees=(2,)),
    )
    monkeypatch.setattr(message_driven, "load_settings", lambda: replace(full, message_driven=driven))
    monkeypatch.setattr(coscheduled_runs.os, "sched_getaffinity", lambda pid: {0})
    return driven


@pytest.mark.parametrize(
    ("experiment", "rows"),
    [
        (message_driven.by_traffic, 3 + 6),
        (message_driven.by_degree, 4 + 1 + 8),
        (message_driven.queue_wait, 4 + 1),
        (message_driven.gmet_sweep, 4 + 6),
        (message_driven.slice_sweep, 3 + 6),
    ],
)
def test_experiment_gives_its_rows_and_a_figure(small, progress, experiment, rows):
    result = experiment(progress)
    assert len(result.rows) == rows
    assert result.figure.curves
    assert result.as_json()["constants"]["machine"]["nodes"] == 8


def test_work_is_shared_and_ranks_fill_nodes():
    first, second = workload(load_settings().message_driven, ["bt.A.4", "sp.A.9"])
    assert first.nodes == (0, 0, 1, 1)
    assert second.nodes == (2, 2, 3, 3, 4, 4, 5, 5, 6)
    steps = first.iterations // first.pieces
    assert first.compute_s[0] * steps == pytest.approx(181.3e9 / 4 / 100e6)


def test_exchanges_grow_with_the_square_of_processors_and_pieces_with_the_message():
    """SP on 4 and 16 processors: 400 iterations of 1 + 6 and 1 + 18 exchanges; a quarter of the message each."""
    small, large, short = workload(load_settings().message_driven, ["sp.A.4", "sp.A.16", "lu.A.8"])
    assert (small.iterations // small.pieces, large.iterations // large.pieces) == (400 * 7, 400 * 19)
    assert (small.pieces, large.pieces, short.pieces) == (11, 3, 1)


def test_groups_of_table_3_give_their_degree_on_the_fullest_node():
    settings = load_settings().message_driven
    fullest = {}
    for degree, names in settings.degrees.items():
        jobs = workload(settings, names)
        fullest[degree] = max(sum(node in job.nodes for job in jobs) for node in range(8))
    assert fullest == {2: 2, 3: 3, 4: 4, 5: 5}


def test_queue_has_its_short_and_long_jobs_in_an_order_of_chance():
    settings = load_settings().message_driven
    names = [job.name.partition(":")[2] for job in queue(settings, 1)]
    assert len(names) == 100
    assert names.count("lu.C.16") == 2
    assert names != [job.name.partition(":")[2] for job in queue(settings, 2)]


def test_unknown_benchmarks_are_all_named():
    settings = load_settings().message_driven
    with pytest.raises(ConfigError, match=r"(?s)'xx.A.4' is no benchmark; legal are bt.A.*'bt.A.99' has 99"):
        workload(settings, ["xx.A.4", "bt.A.4", "bt.A.99"])
