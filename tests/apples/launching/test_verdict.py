"""What a launch amounts to, from records alone."""

from __future__ import annotations

from signal import Signals

import msgspec
import pytest

from apples.hosts.hostmessages import RankRecord, signal_name
from apples.hosts.statusfile import LEFT_EARLY, StatusFile
from apples.launching.openmpi import NAMES
from apples.launching.termination import GracePeriods, Termination
from apples.launching.verdict import LaunchResult, aftermath, judge
from tests.transcripts import replay


class VerdictSession:
    """Commands of transcripts: `launch` with the end of each rank, answered with the outcome, and what it left.

    A rank is `none` without a record, `lost` without an end, else its exit code or sN for signal N. After commas follow
    by which request it ended (`request`, `parent`), @ when, + how many processes it left, and an error.
    """

    def launch(self, *ranks, mpiexec="0", said="", lost=None, names="hydra", signal=None, limit="no"):
        ending = Termination(started=0.0, time_limit_s=90.0, grace=GracePeriods())
        if signal is not None:
            ending.signalled(Signals[f"SIG{signal}"], 1.0)
            ending.over()
        if limit == "reached":
            ending.tick(90.0)
        launch = LaunchResult(
            hosts=[f"host{rank}" for rank in range(len(ranks))],
            records=[self.record(rank, *word.split(",")) for rank, word in enumerate(ranks)],
            mpiexec_code=int(mpiexec),
            mpiexec_stderr=said,
            observed_s=4.2,
            time_limit_s=90.0,
            lost={} if lost is None else {lost: "is gone"},
            names=NAMES if names == "openmpi" else ("mpiexec", "hydra_pmi_proxy"),
        )
        outcome = judge(launch, ending)
        assert outcome.observed_s == 4.2
        assert [s.pid for s in outcome.statuses] == [r and r.pid for r in launch.records]
        blamed = [status.rank for status in outcome.statuses if status.to_blame]
        yield f"{outcome.ended}, code {outcome.exit_code}, to blame {blamed}"
        yield from (f"message: {line}" for line in outcome.message.splitlines())
        yield from (f"then: {line}" for line in aftermath(launch).splitlines())
        yield from (f"without {host}: {why}" for host, why in outcome.lost.items())

    def record(self, rank, end, *more):
        if end == "none":
            return None
        fields = {"ended": 2.0, "ended_by": "itself", "exit_code": int(end) if end.isdigit() else None}
        if end == "lost":
            fields |= {"ended": None, "ended_by": None}
        elif end.startswith("s"):
            fields["signal"] = int(end[1:])
        for word in more:
            if word in ("request", "parent"):
                fields["ended_by"] = word
            elif word in ERRORS:
                fields["error"] = ERRORS[word]
            else:
                name, kind = {"@": ("ended", float), "+": ("swept", int)}[word[0]]
                fields[name] = kind(word[1:])
        host = f"host{rank}"
        return RankRecord(rank=rank, host=host, pid=100 + rank, keeper=50 + rank, started=1.0, **fields)


ERRORS = {"early": LEFT_EARLY, "denied": "cannot run app: Permission denied"}


def test_ends_of_ranks_give_recorded_verdicts(golden):
    golden("apples/launching/verdicts.txt", replay("apples/launching/verdicts.txt", VerdictSession()))


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
