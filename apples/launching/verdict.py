"""The outcome of a finished launch, computed from rank records and the termination. Pure.

`mpiexec`'s exit code proves nothing (MPICH joins the codes of its ranks bit by bit: 3, 4 and 5 give 7, and a run
whose ranks never started can give 0). A run is finished when every rank has recorded exit code 0. Of the ranks that
failed, those that were ended because of another are not to blame, and the first of the others is named. A rank that
ends with exit code 0 before MPI_Finalize fails as well, unless all end so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from signal import SIGKILL

import msgspec

from apples.hosts.agentconnection import AGENT_TIMEOUT_S
from apples.hosts.hostmessages import RankRecord, signal_name
from apples.hosts.statusfile import LEFT_EARLY
from apples.launching import openmpi
from apples.launching.termination import Termination
from apples.model.plan import Outcome, RankStatus
from nws.base.durations import format_seconds
from nws.base.hostlist import fold
from nws.base.records import copied
from nws.base.wording import counted

TIME_LIMIT, LAUNCHER_FAILED = 124, 125
#: Seconds in which `mpiexec` ends the other ranks after the end of one; clocks of hosts may differ by as much.
AT_ONCE_S = 5.0
#: Exit code of ranks that were asked to end with a checkpoint: 128 + SIGTERM.
ADAPTED = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """The facts of a launch after all processes have ended.

    hosts : host of every rank, in rank order.  records : their records, None for ranks without one
    mpiexec_code : exit code of `mpiexec`, negative for a signal.  mpiexec_stderr : its output
    lost : lost hosts, each with the reason.  names : of `mpiexec` and its daemons
    """

    hosts: Sequence[str]
    records: Sequence[RankRecord | None]
    mpiexec_code: int
    mpiexec_stderr: str
    observed_s: float
    time_limit_s: float | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, str] = ("mpiexec", "hydra_pmi_proxy")


def judge(launch: LaunchResult, ending: Termination) -> Outcome:
    """Return the outcome of a launch.

    Args:
        ending: its `cause` is the reason why the run was ended, None if it ended by itself
    """
    if ending.cause == "time limit":
        # Others wait for ever for ranks that end before MPI_Init.
        early = [r for r in launch.records if r is not None and r.exit_code == 0 and r.ended_by == "itself"]
        limit = format_seconds(launch.time_limit_s or 0.0)
        limit += f"; {_ranks(early)} had ended with exit code 0 before" if early else ""
        return _outcome(launch, "time limit", TIME_LIMIT, f"the run was ended at its time limit of {limit}")
    if ending.cause == "interrupted" and ending.interrupt is not None:
        message = f"the run was interrupted by signal {signal_name(ending.interrupt)}"
        return _outcome(launch, "interrupted", 128 + ending.interrupt, message)
    # From here on the ranks' own records count before the launcher's knowledge.
    records = [r for r in launch.records if r is not None]
    # Also if a host was lost afterwards: the results are there.
    if len(records) == len(launch.hosts) and all(r.exit_code == 0 for r in records):
        return _outcome(launch, "finished", 0, "")
    if ending.cause == "adapted" and len(records) == len(launch.hosts) and not launch.lost:
        # Ranks that were asked for a checkpoint may end with 0, or by TERM as a shell shows it.
        odd = [r for r in records if _is_odd(r)]
        if not odd:
            return _outcome(launch, "adapted", ADAPTED, "the run was ended to go on with another plan")
        return _outcome(launch, "failed", max(r.shell_code for r in odd), _blame(odd, len(launch.hosts)))
    if launch.lost:
        # A rank cannot bring down a host. But other ranks may fail with the host, before its loss is detected.
        outcome = _outcome(launch, "failed", LAUNCHER_FAILED, _lost(launch.lost))
        return replace(outcome, lost=dict(launch.lost))
    culprits = [r for r in records if _to_blame(r) and r.failed]
    if not culprits and len(records) == len(launch.hosts) and launch.mpiexec_code >= 0:
        # No rank is to blame by its own record, and `mpiexec` was not killed: one with code 0 must have left.
        records = [_left_early(record, launch) for record in records]
        launch = replace(launch, records=records)
        culprits = [r for r in records if _to_blame(r) and r.failed]
    if culprits:
        # The largest, so that a failed run never has the code 0 of a rank that failed without one.
        code = max(r.shell_code for r in culprits)
        return _outcome(launch, "failed", code, _blame(culprits, len(launch.hosts)))
    return _launcher_lost(launch)


def aftermath(launch: LaunchResult) -> str:
    """Return one sentence on the ranks that the launch ended, killed or left; empty if none was killed."""
    records = [r for r in launch.records if r is not None and r.ended is not None]
    ended = [r for r in records if r.ended_by != "itself" and r.signal is not None]
    killed = sum(r.signal == SIGKILL for r in ended)
    swept = [r for r in records if r.swept]
    lost = [host for host in dict.fromkeys(launch.hosts) if host in launch.lost]
    parts = []
    if ended:
        parts.append(f"ended {_ranks(ended)}" + (f", {killed} of them by KILL" if killed else ""))
    if swept:
        processes = counted(sum(r.swept for r in swept), "process")
        parts.append(f"killed {processes} that {_ranks(swept)} had left")
    if lost:
        parts.append(
            f"left ranks on {fold(lost)}, which end there {AGENT_TIMEOUT_S:g} s after the connection"
        )
    return "; ".join(parts)


def _ranks(records: Sequence[RankRecord]) -> str:
    """Return the numbers of ranks as `rank 3` or `ranks 0-2,5`."""
    # Folded like hosts, `[0-2,5]`, but without the brackets.
    numbers = fold([str(r.rank) for r in records]).strip("[]")
    return f"rank{'s' if len(records) > 1 else ''} {numbers}"


def _is_odd(record: RankRecord) -> bool:
    """Return whether a rank ended unlike one that was asked for a checkpoint; the last may be killed with the first."""
    if record.exit_code is None:
        return _to_blame(record)
    return record.exit_code not in (0, ADAPTED)


def _to_blame(record: RankRecord) -> bool:
    """Return whether a rank failed by itself, or lost its supervisor, which the launcher never kills first."""
    return record.ended is None or (record.failed and record.ended_by == "itself")


def _left_early(record: RankRecord, launch: LaunchResult) -> RankRecord:
    """Return a record with an error if its rank ended with 0 and `mpiexec` therefore ended the others and itself.

    Supervisors see such an end in the conversation with hydra. Open MPI has none. Its `mpiexec` returns 1 after a rank
    that skipped MPI_Finalize, and 0 after an abort whose code is 0 in its lowest eight bits.
    """
    victims = [r.ended for r in launch.records if r is not None and r.ended is not None and r.exit_code != 0]
    if record.ended is None or record.exit_code != 0 or record.ended_by != "itself":
        return record
    if not victims or abs(min(victims) - record.ended) > AT_ONCE_S:
        return record
    aborted = launch.mpiexec_code == 0 and launch.names == openmpi.NAMES
    why = "aborted the run (MPI_Abort) with code 0 or a multiple of 256" if aborted else LEFT_EARLY
    return msgspec.structs.replace(record, error=why)


def _lost(lost: Mapping[str, str]) -> str:
    """Return the names of the lost hosts with their reasons, at most eight."""
    named = "; ".join(f"{host} {why}" for host, why in list(lost.items())[:8])
    return named + ("; …" if len(lost) > 8 else "")


def _blame(culprits: Sequence[RankRecord], ranks: int) -> str:
    # The earliest by the clocks of their hosts, which agree well enough for a sentence.
    first = min(culprits, key=lambda r: (r.ended, r.rank))
    others = len(culprits) - 1
    more = f"; {others} of the other {ranks - 1} ranks failed as well" if others else ""
    return first.describe() + more


def _launcher_lost(launch: LaunchResult) -> Outcome:
    """Return the outcome of a run that did not finish although no rank failed by itself: its starters are to blame."""
    # Without a status not even the supervisor has run.
    silent = [rank for rank, record in enumerate(launch.records) if record is None]
    lost = [r for r in launch.records if r is not None and r.ended is None]
    absent: dict[str, str] = {}
    if silent:
        listed = ", ".join(f"{rank} on {launch.hosts[rank]}" for rank in silent[:8])
        what = f"rank {listed}{' …' if len(silent) > 8 else ''} did not start"
        # Reversed, so that the lowest rank of each host names the reason.
        absent = {launch.hosts[rank]: f"did not start rank {rank}" for rank in reversed(silent)}
        if absent.keys() == set(launch.hosts):
            # Nothing started anywhere: that is not a matter of hosts.
            absent = {}
    elif lost:
        what = f"rank {lost[0].rank} on {lost[0].host} vanished without a status: its supervisor was killed"
    else:
        what = f"the ranks were ended because {' or '.join(launch.names)} was killed; none failed by itself"
    code = launch.mpiexec_code
    how = f"was killed by signal {-code} ({signal_name(-code)})" if code < 0 else f"ended with code {code}"
    stderr = launch.mpiexec_stderr.strip()
    message = f"{what} ({launch.names[0]} {how})" + (f": {stderr}" if stderr else "")
    return replace(_outcome(launch, "failed", LAUNCHER_FAILED, message), lost=absent)


def _outcome(launch: LaunchResult, ended: str, exit_code: int, message: str) -> Outcome:
    statuses = tuple(
        RankStatus(rank=rank, host=host, exit_code=None)
        if record is None
        else copied(RankStatus, record, rank=rank, host=host, to_blame=_to_blame(record))
        for rank, (host, record) in enumerate(zip(launch.hosts, launch.records, strict=True))
    )
    return Outcome(
        ended=ended,
        exit_code=exit_code,
        observed_s=launch.observed_s,
        statuses=statuses,
        message=message,
    )
