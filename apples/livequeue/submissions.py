"""Submissions on their way into the queue: the limits of each user, and the answers after the instant."""

import os
import pwd

from msgspec.structs import asdict

from apples.daemons.ipc.unixserver import Client
from apples.errors import ConfigError, RequestRejected, SharingError
from apples.livequeue.clock import rounded_up
from apples.livequeue.inherited import Inherited, of_process
from apples.livequeue.queuemessages import JobRequest, answer
from apples.livequeue.records import Submission
from apples.livequeue.store import Store
from apples.queueing.configuration import LimitsSection
from nws.base.errors import ReportedError


class Submissions:
    """Submissions that wait for the next instant."""

    def __init__(self, store: Store, limits: LimitsSection) -> None:
        self._store, self._limits = store, limits
        self._arrived: list[tuple[Client, Submission]] = []

    def add(self, client: Client, request: JobRequest, processors: int) -> None:
        """Keep a submission until `answer` or `refuse`. `processors`: of the machine.

        Raises:
            ConfigError: the machine or the user's account cannot run the job; the message has every problem.
            RequestRejected: the client has ended.
        """
        self._arrived.append((client, submission_of(request, client.uid, client.pid, processors)))

    def admitted(self) -> list[Submission]:
        """Return the new jobs within their users' limits, and refuse the others; raise `HistoryError`."""
        new: dict[str, Submission] = {}
        used: dict[int, tuple[int, int, int]] = {}
        for client, submission in list(self._arrived):
            # A client that lost the answer submits again with the same token: still one job.
            if submission.token in new or self._store.by_token(submission.token) is not None:
                continue
            uid = submission.uid
            if uid not in used:
                used[uid] = self._store.usage(uid)
            waiting, procs, size = used[uid]
            jobs = len(submission.tasks) or 1
            requested = (waiting + jobs, procs + jobs * submission.procs, size + jobs * submission.bytes)
            problems = self._beyond(submission.user, *requested)
            others = {condition: condition.partition(":")[2] for condition in submission.after}
            problems += [
                f"after {condition}: there is no job {name}; `apples queue --all` lists all jobs"
                for condition, name in others.items()
                if not self._store.named(name)
            ]
            if problems:
                self._arrived.remove((client, submission))
                client.refuse(RequestRejected(problems))
            else:
                new[submission.token], used[uid] = submission, requested
        return list(new.values())

    def answer(self) -> None:
        """Answer each submission after the instant that made its job; raise `HistoryError` if it cannot be read."""
        while self._arrived:
            client, submission = self._arrived[0]
            record = self._store.by_token(submission.token)
            assert record is not None
            del self._arrived[0]
            if record.uid == submission.uid:
                client.send(answer("job", record.id))
            else:
                client.refuse(RequestRejected("token: that of another user's job"))

    def refuse(self, error: ReportedError) -> None:
        """Refuse all submissions."""
        arrived, self._arrived = self._arrived, []
        for client, _ in arrived:
            client.refuse(error)

    def _beyond(self, user: str, waiting: int, procs: int, size: int) -> list[str]:
        """Return the limits that these values exceed, one sentence each."""
        limits, rest = self._limits, "wait for the end of some jobs, or cancel them"
        exceeded = []
        if waiting > limits.waiting:
            exceeded.append(
                f"user {user} would have {waiting} waiting jobs, at most {limits.waiting} are legal "
                f"(limits.waiting); {rest}"
            )
        if limits.processors is not None and procs > limits.processors:
            exceeded.append(
                f"the jobs of user {user} would request {procs} processors together, at most {limits.processors} are "
                f"legal (limits.processors); {rest}"
            )
        if size > limits.stored_bytes:
            exceeded.append(
                f"the jobs of user {user} would take {size} bytes, at most {limits.stored_bytes} are legal "
                f"(limits.stored_bytes); {rest}"
            )
        return exceeded


def submission_of(request: JobRequest, uid: int, pid: int, processors: int) -> Submission:
    """Return the submission of a process; see `Submissions.add`."""
    problems: list[str] = []
    if request.procs > processors:
        problems.append(
            f"procs {request.procs}: this machine has {processors} processors; 1 to {processors} are legal"
        )
    account = _account(uid)
    if account is None:
        problems.append(f"user {uid} has no entry on this host, so no job can run as that user")
    if problems or account is None:
        raise ConfigError(problems)
    limits = _limits(pid, uid)
    values = asdict(request) | {"request_s": rounded_up(request.request_s)}
    return Submission(**values, uid=uid, user=account[0], gid=account[1], **limits._asdict())


def _limits(pid: int, uid: int) -> Inherited:
    try:
        return of_process(pid, uid)
    except ProcessLookupError:
        raise RequestRejected(
            f"the limits of process {pid} cannot be read, it has ended; a job inherits them, so "
            "submit from a process of this host that waits for the answer"
        ) from None
    except OSError as error:
        raise SharingError(
            f"the limits of process {pid} cannot be read now ({error.strerror}); try again"
        ) from None


def _account(uid: int) -> tuple[str, int] | None:
    """Return (name, group) of a user, or None without an entry. This process's user needs none, as in containers."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        try:
            os.close(os.open("/etc/passwd", os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            pass
        except OSError as error:
            # Without a descriptor every user looks unknown.
            raise SharingError(f"users cannot be looked up now ({error.strerror}); try again") from None
        return (str(uid), os.getgid()) if uid == os.geteuid() else None
    return entry.pw_name, entry.pw_gid
