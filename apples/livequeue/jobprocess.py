"""The start of a job's process: its process group, the user's rights, directory and output files, then the program.

Errors reach the supervisor through a pipe that the program does not inherit.
"""

import ctypes
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from typing import TypeVar

from apples.hosts.kernel import PR_SET_PDEATHSIG
from apples.livequeue.inherited import inherit
from apples.livequeue.queuehosts import HOSTS_VARIABLE, listed
from apples.livequeue.records import JobRecord, Submission
from nws.base import scripts

T = TypeVar("T")
JOB_VARIABLE, PROCS_VARIABLE, TOKEN_VARIABLE = "APPLES_QUEUE_JOB", "APPLES_QUEUE_PROCS", "APPLES_QUEUE_TOKEN"

NOT_POSSIBLE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


class NotStarted(Exception):
    """Raised when the program cannot be started."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def start_process(job: JobRecord, submission: Submission) -> int:
    """Start the job and return its process id, which is also its group id. Raise `NotStarted` on any error."""
    libc = ctypes.CDLL(None)
    supervisor = os.getpid()
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        raise NotStarted(NOT_POSSIBLE, f"no process can be started ({error.strerror})") from None
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _become(job, submission, (libc, supervisor))
        except NotStarted as error:
            os.write(write, f"{error.exit_code} {error}".encode())
        except BaseException as error:
            os.write(write, f"{NOT_POSSIBLE} {type(error).__name__}: {error}".encode())
        finally:
            os._exit(NOT_POSSIBLE)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        error_text = pipe.read().decode(errors="replace")
    if error_text:
        os.waitpid(pid, 0)
        code, _, reason = error_text.partition(" ")
        raise NotStarted(int(code), reason)
    return pid


def filled(path: str, job: JobRecord) -> str:
    """Return the path with job id %j, name %x, user %u, array %A and number in it %a filled in, and %% as %.

    A number before the letter is the least number of digits, as in Slurm.
    """
    values = {
        "j": job.id,
        "x": job.name,
        "u": job.user,
        "A": job.array or job.id,
        "a": job.task or 0,
    }

    def value(match: re.Match[str]) -> str:
        letter = match[2]
        return "%" if letter == "%" else str(values[letter]).zfill(int(match[1] or 0))

    return re.sub("%([0-9]{0,2})([jxuAa]|(?<=%)%)", value, path)


def _become(job: JobRecord, submission: Submission, guard: tuple[ctypes.CDLL, int]) -> None:
    """Replace this process by the program. Raise `NotStarted` if that is not possible; never return.

    Args:
        job: the record of the job.
        submission: command, user and environment.
        guard: the C library, and the process id of the supervisor.
    """
    os.umask(submission.umask)
    # Before the change of the user, which takes the right to raise limits.
    inherit(submission.nice, submission.rlimits, job.cpus or submission.affinity)
    if os.geteuid() != submission.uid:
        _step("user", submission.user, lambda: os.initgroups(submission.user, submission.gid))
        os.setgid(submission.gid)
        os.setuid(submission.uid)
    _step("directory", submission.directory, lambda: os.chdir(submission.directory))
    _redirect(job)
    environment = {
        **submission.environment,
        JOB_VARIABLE: str(job.id),
        PROCS_VARIABLE: str(submission.procs),
        HOSTS_VARIABLE: listed(job.hosts),
        TOKEN_VARIABLE: submission.token,
    }
    if job.task is not None:
        environment |= {"SLURM_ARRAY_JOB_ID": str(job.array), "SLURM_ARRAY_TASK_ID": str(job.task)}
    program = _program(submission.command[0], environment)
    # A change of the user clears the parent-death signal, so it is set last. If the supervisor died before, the parent
    # process id has changed.
    libc, supervisor = guard
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(NOT_POSSIBLE)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execve(program, submission.command, environment)
    except OSError as error:
        raise NotStarted(NOT_EXECUTABLE, f"{program}: cannot be run ({error.strerror})") from None


def _redirect(job: JobRecord) -> None:
    """Open output and error files as descriptors 1 and 2, and /dev/null as 0."""
    paths = [filled(path, job) for path in (job.output, job.error)]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    first = _open_file(paths[0])
    second = first if paths[0] == paths[1] else _open_file(paths[1])
    os.dup2(first, 1)
    os.dup2(second, 2)
    for fd in {first, second} - {1, 2}:
        os.close(fd)


def _open_file(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    return _step("output file", path, lambda: os.open(path, flags, 0o666))


def _step(kind: str, name: str, act: Callable[[], T]) -> T:
    """Return the result of one system call; raise `NotStarted` with kind and name of its object if it fails."""
    try:
        return act()
    except OSError as error:
        raise NotStarted(NOT_POSSIBLE, f"{kind} {name}: cannot be used ({error.strerror})") from None


def _program(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of the program; raise `NotStarted` if there is none."""
    path = shutil.which(name, path=environment.get("PATH", os.defpath))
    if path is not None:
        if (fault := scripts.fault(path)) is not None:
            raise NotStarted(NOT_EXECUTABLE, f"{name}: cannot be run: {fault}")
        return path
    if os.path.exists(name) and "/" in name:
        raise NotStarted(NOT_EXECUTABLE, f"{name}: is not an executable program")
    raise NotStarted(NOT_FOUND, f"{name}: no such program on the job's PATH")
