"""What a launch amounts to, from records alone."""

from __future__ import annotations

from signal import SIGINT, SIGTERM

import msgspec
import pytest

from apples.hosts.hostmessages import RankRecord, signal_name
from apples.hosts.statusfile import StatusFile
from apples.launching.openmpi import NAMES
from apples.launching.termination import GracePeriods, Termination
from apples.launching.verdict import LaunchResult, aftermath, judge

HYDRA = ("mpiexec", "hydra_pmi_proxy")


def record(rank: int, code: int | None = 0, **changes: object) -> RankRecord:
    fields: dict[str, object] = {
        "rank": rank,
        "host": f"host{rank}",
        "pid": 100 + rank,
        "keeper": 50 + rank,
        "started": 1.0,
        "ended": 2.0,
        "exit_code": code,
        "ended_by": "itself",
    }
    return RankRecord(**{**fields, **changes})


def killed(rank: int, signal: int, **changes: object) -> RankRecord:
    return record(rank, None, signal=signal, **changes)


def verdict(
    *records: RankRecord | None,
    mpiexec_code: int = 0,
    said: str = "",
    ending: Termination | None = None,
    names=HYDRA,
):
    launch = LaunchResult(
        hosts=[f"host{rank}" for rank in range(len(records))],
        records=records,
        mpiexec_code=mpiexec_code,
        mpiexec_stderr=said,
        observed_s=4.2,
        time_limit_s=90.0,
        names=names,
    )
    return judge(launch, ending or quiet())


def quiet() -> Termination:
    return Termination(started=0.0, time_limit_s=90.0, grace=GracePeriods())


@pytest.mark.parametrize(
    ("records", "lost", "text"),
    [
        ([record(0), record(1, 3)], {}, ""),
        (
            [
                record(0, 3),
                killed(1, 15, ended_by="request"),
                killed(2, 9, ended_by="parent"),
                record(3, swept=1),
            ],
            {},
            "ended ranks 1-2, 1 of them by KILL; killed 1 process that rank 3 had left",
        ),
        (
            [record(0, swept=2), record(1), record(2, swept=1)],
            {},
            "killed 3 processes that ranks 0,2 had left",
        ),
        (
            [record(0, 3), None],
            {"host1": "is gone"},
            "left ranks on host1, which end there 30 s after the connection",
        ),
    ],
)
def test_aftermath_names_what_was_ended_killed_and_left(records, lost, text) -> None:
    hosts = [f"host{rank}" for rank in range(len(records))]
    launch = LaunchResult(
        hosts=hosts, records=records, mpiexec_code=0, mpiexec_stderr="", observed_s=1.0, lost=lost
    )
    assert aftermath(launch) == text


def test_finished_ignores_the_code_of_mpiexec() -> None:
    outcome = verdict(record(0), record(1), mpiexec_code=7)
    assert (outcome.ended, outcome.exit_code, outcome.message, outcome.observed_s) == ("finished", 0, "", 4.2)
    assert [s.pid for s in outcome.statuses] == [100, 101]


def test_highest_code_over_the_ranks() -> None:
    outcome = verdict(record(0, 3, ended=3.0), record(1, 5), record(2, 4, ended=2.5), mpiexec_code=7)
    assert outcome.exit_code == 5
    assert outcome.message == "rank 1 on host1 ended with exit code 5; 2 of the other 2 ranks failed as well"


def test_culprit_is_named_not_its_victims() -> None:
    outcome = verdict(
        killed(0, 9, ended_by="parent", ended=1.9),
        record(1),
        killed(2, 15, ended_by="request"),
        killed(3, 11),
    )
    assert outcome.exit_code == 139
    assert outcome.message == "rank 3 on host3 was killed by signal 11 (SEGV)"


def test_program_that_could_not_be_run() -> None:
    outcome = verdict(record(0, 126, error="cannot run app: Permission denied"), record(1))
    assert (outcome.exit_code, outcome.message) == (126, "rank 0 on host0 cannot run app: Permission denied")


def test_no_exit_code_of_mpiexec_proves_success() -> None:
    outcome = verdict(record(0), None, mpiexec_code=0, said="sorry\n")
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)
    assert outcome.message == "rank 1 on host1 did not start (mpiexec ended with code 0): sorry"


def test_rank_that_vanished() -> None:
    outcome = verdict(record(0, ended=None, exit_code=None), record(1), mpiexec_code=9)
    assert outcome.exit_code == 125
    assert "rank 0 on host0 vanished without a status" in outcome.message


def test_mpiexec_was_killed() -> None:
    outcome = verdict(killed(0, 9, ended_by="parent"), killed(1, 9, ended_by="parent"), mpiexec_code=-9)
    assert outcome.exit_code == 125
    assert "none failed by itself (mpiexec was killed by signal 9 (KILL))" in outcome.message


EARLY = "ended with exit code 0 before MPI_Finalize"


@pytest.mark.parametrize(
    ("records", "mpiexec", "names", "code", "message"),
    [
        # the supervisor knows it
        (
            [record(0, 0, error=EARLY), killed(1, 9, ended_by="parent")],
            9,
            HYDRA,
            1,
            f"rank 0 on host0 {EARLY}",
        ),
        ([record(0, 0, error=EARLY), record(1, 0, error=EARLY)], 0, HYDRA, 0, ""),
        # only mpiexec knows it
        ([record(0), killed(1, 15, ended_by="parent", ended=2.5)], 1, NAMES, 1, f"rank 0 on host0 {EARLY}"),
        ([record(0), killed(1, 15, ended_by="parent", ended=1.5)], 0, NAMES, 1, "MPI_Abort) with code 0 or"),
        (
            [record(0), record(1, 0, ended=3.0), killed(2, 9, ended_by="parent")],
            1,
            NAMES,
            1,
            f"host0 {EARLY}; 1 of",
        ),
        # the end of another rank is no reason
        ([record(0), record(1, 7)], 1, NAMES, 7, "rank 1 on host1 ended with exit code 7"),
        ([record(0), killed(1, 9, ended_by="parent", ended=60.0)], 1, NAMES, 125, "daemon was killed"),
        ([record(0), killed(1, 9, ended_by="parent")], -9, NAMES, 125, "mpiexec was killed by signal 9"),
    ],
)
def test_rank_that_ended_early_is_named(records, mpiexec, names, code, message) -> None:
    outcome = verdict(*records, mpiexec_code=mpiexec, names=names)
    assert message in outcome.message
    assert outcome.exit_code == code


@pytest.mark.parametrize(("signal", "code", "name"), [(SIGINT, 130, "INT"), (SIGTERM, 143, "TERM")])
def test_interrupted_even_if_the_ranks_end_well(signal, code: int, name: str) -> None:
    ending = quiet()
    ending.signalled(signal, 1.0)
    ending.over()
    outcome = verdict(record(0), record(1), ending=ending)
    assert (outcome.ended, outcome.exit_code) == ("interrupted", code)
    assert outcome.message == f"the run was interrupted by signal {name}"


def test_time_limit_says_which() -> None:
    ending = quiet()
    ending.tick(90.0)
    outcome = verdict(killed(0, 15, ended_by="request"), ending=ending)
    assert (outcome.ended, outcome.exit_code) == ("time limit", 124)
    assert outcome.message == "the run was ended at its time limit of 1 min 30 s"


def test_lost_host_is_to_blame_for_what_its_peers_did() -> None:
    launch = LaunchResult(
        hosts=["alpha", "beta"],
        records=[record(0, exit_code=15), record(1, ended=None, exit_code=None, ended_by=None)],
        mpiexec_code=15,
        mpiexec_stderr="",
        observed_s=1.0,
        lost={"beta": "was not heard of for 10 s"},
    )
    outcome = judge(launch, quiet())
    assert (outcome.ended, outcome.exit_code, outcome.message) == (
        "failed",
        125,
        "beta was not heard of for 10 s",
    )


def test_status_file_is_read_as_it_was_written(tmp_path) -> None:
    status = StatusFile(str(tmp_path), 3, 'odd "host"\\', None)
    status.pid = 77
    status.started()
    file = tmp_path / "status-00003.json"
    running = msgspec.json.decode(file.read_bytes(), type=RankRecord)
    assert (running.ended, running.describe()) == (None, 'rank 3 on odd "host"\\ runs (pid 77)')
    status.ended(9, ended_by="itself")
    ended = msgspec.json.decode(file.read_bytes(), type=RankRecord)
    assert (ended.signal, ended.exit_code, ended.pid, ended.failed, ended.shell_code) == (
        9,
        None,
        77,
        True,
        137,
    )
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("text", [b'{"rank": 0', b'{"rank": 0}', b"[]"])
def test_text_that_is_no_status_is_an_error(text) -> None:
    with pytest.raises((ValueError, TypeError)):
        msgspec.json.decode(text, type=RankRecord)


def test_signals_have_names() -> None:
    assert [signal_name(n) for n in (9, 15, 40)] == ["KILL", "TERM", "number 40"]
