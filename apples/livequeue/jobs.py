"""Jobs of the queue as Python objects: submit a command, wait for its end, ask why it waits, cancel it."""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apples.daemons.ipc.requests import Refusal
from apples.daemons.ipc.socketclient import error_of
from apples.errors import ConfigError
from apples.livequeue.queueclient import ask, ends_of, jobs_of
from apples.livequeue.queuemessages import Changed
from apples.livequeue.records import JobEnd
from nws.base.arguments import checked_arguments
from nws.base.records import copied

#: Wall time of a job that requests none, seconds.
DEFAULT_REQUEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that the queue accepted.

    id: its number.
    socket: path of the manager's socket, or None for the default path.
    """

    id: int
    socket: Path | None = None

    def wait(self) -> JobEnd:
        """Wait for the end of the job, and return it; of an array, that with the highest exit code.

        Raises:
            NoDaemon: no manager answers for 15 seconds.
        """
        row = max(ends_of([self.id], self.socket), key=lambda row: row.exit_code or 0)
        return copied(JobEnd, row, ended_at=row.ended, detail=row.detail or "")

    def why(self) -> str:
        """Return one sentence: the condition under which the job starts, or its state."""
        return str(ask("why", self.id, self.socket))

    def cancel(self) -> str:
        """Cancel or stop the job. Return "cancelled", "ending" or "over"; raise `RequestRejected`."""
        answers: list[Changed] = ask("cancel", jobs_of([self.id], self.socket), self.socket, retry=True)
        for answer in answers:
            if answer.refused is not None:
                raise error_of(Refusal(refused=answer.refused, code=answer.code))
        return str(answers[-1].state)


def submit(
    command: Sequence[str],
    *,
    procs: int = 1,
    request_s: float = DEFAULT_REQUEST_S,
    socket: Path | None = None,
    **details: Any,
) -> SubmittedJob:
    """Put a command into the queue of `apples manager --queue` and return the job.

    Args:
        command: program and its arguments.
        procs: number of processors.
        request_s: wall time after which the job is ended, seconds.
        socket: of the manager, None for the usual one.
        details: `name`, `project`, `model_s`, `duties`, `directory`, `output`, `error`, `held`, `after`, `tasks`,
            `at_once`, as for `job_document`.

    Raises:
        ConfigError: the queue cannot run such a job.
        NoDaemon: no manager of a queue answers.
    """
    document = job_document(command, procs=procs, request_s=request_s, **details)
    return SubmittedJob(int(ask("submit", document, socket, retry=True)), socket)


@checked_arguments(ConfigError)
def job_document(
    command: Sequence[str],
    *,
    procs: int,
    request_s: float,
    model_s: float | None = None,
    duties: Sequence[float] = (),
    name: str | None = None,
    project: str | None = None,
    directory: str | Path | None = None,
    output: str | Path | None = None,
    error: str | Path | None = None,
    held: bool = False,
    after: Sequence[str] = (),
    tasks: Sequence[int] = (),
    at_once: int = 0,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a submission of this user, with this process's environment, as the manager reads it.

    Args:
        command: program and its arguments.
        procs: number of processors.
        request_s: wall time after which the job is ended, seconds.
        model_s: predicted run time, seconds; None for an estimate from similar jobs.
        duties: share of its processor that each rank computes for, or one value for all. The job may then share its
            processors with another job that allows it. By default it does not.
        name: of the job, by default the program's.
        project: that the job is charged to.
        directory: working directory, by default this process's.
        output: file, relative to the directory; by default apples-%j.out, %j being the job's number.
        error: file, by default the output's.
        held: the job waits until `apples release`.
        after: conditions, `ok:N`, `any:N` or `failed:N`: it starts after job N has ended in that way.
        tasks: numbers of an array of jobs that run the command; empty for one job.
        at_once: most jobs of the array that run at once, 0 without limit.
        variables: of the job, beside this process's environment.

    Raises:
        ConfigError: a path, a word or a variable is not UTF-8.
    """
    if not command or not all(isinstance(word, str) for word in command):
        raise ConfigError([f"command: expected the program and its arguments, texts; got {command!r}"])
    # The mask can be read by setting it only.
    umask = os.umask(0)
    os.umask(umask)
    start_dir = Path(directory or ".").absolute()
    output = start_dir / (output or ("apples-%A_%a.out" if tasks else "apples-%j.out"))
    document = {
        # With the same token, a repeated submission makes no second job.
        "token": secrets.token_hex(16),
        "name": name or Path(command[0]).name,
        "project": project or "",
        "command": list(command),
        "directory": str(start_dir),
        "environment": {**os.environ, **(variables or {})},
        "umask": umask,
        "output": str(output),
        "error": str(start_dir / (error or output)),
        "procs": procs,
        "request_s": request_s,
        "model_s": model_s,
        "duties": list(duties),
        "held": held,
        "after": list(after),
        "tasks": list(tasks),
        "at_once": at_once,
    }
    problems = list(_not_text(document))
    if problems:
        raise ConfigError(problems)
    return document


def _not_text(value: object, part: str = "") -> Iterator[str]:
    """Yield a problem for each text that is not UTF-8: the queue's protocol and store are UTF-8."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _not_text(name, f"{part} name".strip())
            yield from _not_text(item, f"{part} {name}".strip())
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _not_text(item, f"{part} {number}")
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield f"{part} {value!r}: is not UTF-8 text, which the queue needs; rename or unset it"
