"""Run a command as if it had been started in place of this one: its signals, stops and end are passed on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import Iterable, Mapping, NoReturn, Sequence

#: Signals that are passed on. Of the others, faults are this process's own and STOP and KILL cannot be caught.
PASSED = {
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT", "SIGTSTP"),
    *("SIGWINCH", "SIGXCPU", "SIGPWR"),
}
_PASSED = {signal.Signals[name] for name in PASSED}
#: `si_code` of signals that the kernel sends, as to all processes of a terminal: the command has its own.
_FROM_KERNEL = 0x80
_SET_DEATH_SIGNAL = 1  # prctl(PR_SET_PDEATHSIG)


def run(command: Sequence[str], environment: Mapping[str, str], lock: int) -> int:
    """Run a command to its end and return its status as `os.waitpid` has it; `lock` is a descriptor it inherits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED | {signal.SIGCHLD})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.set_inheritable(lock, True)
        _become(command, environment, parent, before)
    try:
        return _await(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become(
    command: Sequence[str], environment: Mapping[str, str], parent: int, mask: Iterable[int]
) -> NoReturn:
    """Turn this new process into the command; it ends with 127 if there is no such program, 126 if it cannot run."""
    code = 126
    try:
        # mpi-wait can be killed without having passed that on.
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(code)
        # Python ignores these.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else code
        with contextlib.suppress(OSError):
            os.write(2, f"mpi-wait: {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(code)


def _await(child: int) -> int:
    """Pass signals on until the command ends; return its status."""
    suspending = stopped = False
    while True:
        event = signal.sigwaitinfo(_PASSED | {signal.SIGCHLD})
        if event.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if pid == child and not os.WIFSTOPPED(status):
                return status
            stopped = stopped or pid == child
        else:
            suspending = event.si_signo == signal.SIGTSTP
            stopped = stopped and event.si_signo != signal.SIGCONT
            if event.si_code != _FROM_KERNEL:
                os.kill(child, event.si_signo)
        if suspending and stopped:
            # The shell sees the job stopped, and continues all of it. Stops by others are the command's alone.
            suspending = stopped = False
            os.kill(os.getpid(), signal.SIGSTOP)


def end_like(status: int) -> NoReturn:
    """End this process as the command has ended: with its exit code, or by its signal."""
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    # The core, if there is one, is the command's.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # The first process of a container survives it.
    sys.exit(128 + number)
