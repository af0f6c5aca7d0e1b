"""The start of a job's process: group of its own, the user's rights, directory, output files, then the program.

Whatever will not do is told to the supervisor through a pipe that the program itself never sees.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from collections.abc import Callable, Mapping

from apples.launching.kernel import PR_SET_PDEATHSIG
from apples.livequeue.hosts import HOSTS_VARIABLE, listed
from apples.livequeue.records import JobRecord, Submission

JOB_VARIABLE, PROCS_VARIABLE, TOKEN_VARIABLE = "APPLES_QUEUE_JOB", "APPLES_QUEUE_PROCS", "APPLES_QUEUE_TOKEN"

NOT_POSSIBLE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


class NotStarted(Exception):
    """The program could not be started; the message says why."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def start_process(job: JobRecord, what: Submission) -> int:
    """Process id of the job, which leads its group. Raises `NotStarted`."""
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
            _become(job, what, (libc, supervisor))
        except NotStarted as error:
            os.write(write, f"{error.exit_code} {error}".encode())
        except BaseException as error:
            os.write(write, f"{NOT_POSSIBLE} {type(error).__name__}: {error}".encode())
        finally:
            os._exit(NOT_POSSIBLE)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    if said:
        os.waitpid(pid, 0)
        code, _, reason = said.partition(" ")
        raise NotStarted(int(code), reason)
    return pid


def filled(path: str, job_id: int, what: Submission) -> str:
    """A path with %j, %x and %u as number, name and user, and %% as itself."""
    marks = {"%j": str(job_id), "%x": what.name, "%u": what.user, "%%": "%"}
    parts, rest = [], path
    while rest:
        before, mark, after = rest.partition("%")
        parts.append(before)
        if mark:
            parts.append(marks.get(mark + after[:1], mark + after[:1]))
        rest = after[1:]
    return "".join(parts)


def _become(job: JobRecord, what: Submission, guard: tuple[ctypes.CDLL, int]) -> None:
    """Does not return unless by `NotStarted`."""
    os.umask(what.umask)
    if os.geteuid() != what.uid:
        _step("user", what.user, lambda: os.initgroups(what.user, what.gid))
        os.setgid(what.gid)
        os.setuid(what.uid)
    _step("directory", what.directory, lambda: os.chdir(what.directory))
    _redirect(job.id, what)
    environment = {
        **what.environment,
        JOB_VARIABLE: str(job.id),
        PROCS_VARIABLE: str(what.procs),
        HOSTS_VARIABLE: listed(job.hosts),
        TOKEN_VARIABLE: what.token,
    }
    program = _program(what.command[0], environment)
    # Changing the user clears it, so it comes last. A supervisor that died before is noticed by the parent's number.
    libc, supervisor = guard
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(NOT_POSSIBLE)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execve(program, what.command, environment)
    except OSError as error:
        raise NotStarted(NOT_EXECUTABLE, f"{program}: cannot be run ({error.strerror})") from None


def _redirect(job_id: int, what: Submission) -> None:
    """Output and error files on 1 and 2, nothing on 0."""
    paths = [filled(path, job_id, what) for path in (what.output, what.error)]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    first = _opened(paths[0])
    second = first if paths[0] == paths[1] else _opened(paths[1])
    os.dup2(first, 1)
    os.dup2(second, 2)
    for fd in {first, second} - {1, 2}:
        os.close(fd)


def _opened(path: str) -> int:
    found: list[int] = []
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    _step("output file", path, lambda: found.append(os.open(path, flags, 0o666)))
    return found[0]


def _step(what: str, which: str, act: Callable[[], object]) -> None:
    try:
        act()
    except OSError as error:
        raise NotStarted(NOT_POSSIBLE, f"{what} {which}: cannot be used ({error.strerror})") from None


def _program(name: str, environment: Mapping[str, str]) -> str:
    """The path of the program. Raises `NotStarted`."""
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is not None:
        return found
    if os.path.exists(name) and "/" in name:
        raise NotStarted(NOT_EXECUTABLE, f"{name}: is no program that may be run")
    raise NotStarted(NOT_FOUND, f"{name}: no such program on the job's PATH")
