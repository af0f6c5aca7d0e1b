"""TALP's metrics out of the figures of ranks, as a document and as a table."""

from types import SimpleNamespace

import pytest

from apples.cli.report import monitor_lines
from apples.daemons import nodeclient
from apples.monitoring.counters import MonitorState, PageCounters
from apples.monitoring.efficiencies import efficiencies, monitor_document


def figures(rank, t_cpu_s, **more):
    job = {"pid": 100 + rank, "rank": rank, "ranks": 2, "mpi": "MPICH 4.0.2", "host": "alpha"}
    end = {"started_s": 10.0, "ended_s": 20.0, "updated_s": 20.0, "state": MonitorState.FINALIZED}
    times = {"threads": 1, "t_cpu_s": t_cpu_s, "t_comm_s": 10.0 - t_cpu_s, "last_request_s": None}
    counts = dict.fromkeys(("sent", "received", "requests", "sleeps"), 0) | {"c_comm": 1000, "calls": 2000}
    return PageCounters(**job | end | times | counts | more)


def test_parallel_efficiency_is_load_balance_times_communication_efficiency():
    found = efficiencies([figures(0, 8.0), figures(1, 4.0)])
    assert found.elapsed_s == 10.0
    assert found.load_balance == pytest.approx(0.75)
    assert found.communication == pytest.approx(0.8)
    assert found.parallel == pytest.approx(0.6) == pytest.approx(found.load_balance * found.communication)


def test_talp_document_has_the_metrics_of_dlb_by_host():
    ranks = [figures(0, 4.0, off_s=4.0, queued_s=4.0), figures(1, 4.0), figures(2, 3.0, host="beta")]
    document = monitor_document(ranks)["talp"]
    region = document["Application"]["Global"]
    assert document["resources"] == {"numCpus": 3, "numNodes": 2, "numMpiRanks": 3, "numGpus": 0}
    expected = {
        "elapsedTime": 10e9,
        "usefulTime": 15e9,
        "mpiTime": 15e9,
        "parallelEfficiency": 0.5,
        "cpuShare": 0.5,
    }
    expected |= {"mpiCommunicationEfficiency": 0.8, "mpiLoadBalance": 5 / 8, "mpiLoadBalanceIn": 6 / 8}
    expected |= {
        "mpiLoadBalanceOut": 5 / 6,
        "numMpiCalls": 6000,
        "mpiParallelEfficiency": 0.5,
        "activity": 1.0,
    }
    assert {name: region[name] for name in expected} == pytest.approx(expected)


def test_rank_that_took_longest_is_the_elapsed_time():
    late = figures(1, 4.0, ended_s=None, updated_s=26.0)
    assert efficiencies([figures(0, 8.0), late]).elapsed_s == 16.0


def test_taken_cpu_and_a_pause_are_no_communication():
    found = efficiencies([figures(0, 4.0, off_s=6.0, queued_s=4.0, t_comm_s=0.0)])
    assert (found.communication, found.cpu_share, found.activity) == (1.0, 0.5, 0.8)
    assert found.parallel == pytest.approx(0.4)


def test_threads_that_call_mpi_count_like_ranks():
    assert efficiencies([figures(0, 8.0, threads=2)]).parallel == pytest.approx(0.4)


def test_time_held_stopped_is_no_time_of_the_job():
    held = [figures(rank, 4.0, stopped_s=5.0) for rank in range(2)]
    assert efficiencies(held).elapsed_s == 5.0
    assert efficiencies(held).parallel == pytest.approx(0.8)
    assert figures(0, 4.0, stopped_s=9.0).ran_s == 4.0


def report(rank):
    """Return a node manager's report of a rank; of None, one that is not monitored."""
    times = ("t_cpu_s", "ran_s", "off_s", "queued_s", "threads")
    values = {"t_cpu_s": None} if rank is None else {name: getattr(rank, name) for name in times}
    return SimpleNamespace(**values)


def test_node_reports_give_the_metrics_of_the_pages():
    ranks = [figures(0, 8.0, stopped_s=1.0, threads=2), figures(1, 3.0, off_s=2.0, queued_s=1.0)]
    assert nodeclient.measured_efficiencies([*map(report, ranks), report(None)]) == efficiencies(ranks)
    assert nodeclient.efficiencies([report(None)]) is None


@pytest.mark.parametrize("ranks", [[], [figures(0, 0.0)], [figures(0, 1.0, ended_s=10.0)]])
def test_where_nothing_has_been_computed_there_is_nothing_to_say(ranks):
    assert efficiencies(ranks) is None
    assert monitor_document(ranks)["parallel_efficiency"] is None


def test_document_names_ranks_that_are_missing():
    document = monitor_document([figures(2, 5.0, ranks=4, c_comm=0), figures(0, 5.0, ranks=4)])
    assert document["missing"] == [1, 3]
    assert [entry["rank"] for entry in document["ranks"]] == [0, 2]
    assert [entry["granularity_s"] for entry in document["ranks"]] == [pytest.approx(0.01), None]


def test_the_table():
    ranks = [figures(0, 8.0), figures(1, 4.0, state=MonitorState.RUNNING, ranks=3)]
    assert monitor_lines(ranks) == [
        "rank   host  computed  in MPI  events  granularity",
        "0     alpha       8 s     2 s    1000       0.01 s",
        "1     alpha       4 s     6 s    1000       0.01 s",
        "ranks that did not reach MPI_Finalize, as far as they came: 1",
        "ranks that left no figures: 2",
        "parallel efficiency 60.0% = load balance 75.0% × communication 80.0% × "
        "CPU share 100.0%  (MPICH 4.0.2)",
    ]
    assert monitor_lines([]) == ["monitor: no rank has started MPI, so there are no figures"]
