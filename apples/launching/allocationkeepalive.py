"""Holds an allocation as long as the launcher lives: gives it back when the launcher lets go or is gone.

Run as a bare script, once around `salloc` and once as the command that `salloc` runs:

    python -I -S allocationkeepalive.py guard LIFELINE ANSWER SALLOC OPTIONS... hold
    python -I -S allocationkeepalive.py hold LIFELINE ANSWER            (what the guard puts in place of that last word)

LIFELINE is the read end of a pipe whose other end only the launcher has; to ANSWER the number of the job is written
once it is ours, and that of the process `salloc`. An `salloc` that is killed before it has its nodes leaves its job in
the queue, and one that is killed later its allocation: so it is told to end, and only by force when it does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

#: Seconds `salloc` may take to give the allocation back, first by itself, then after TERM.
BY_ITSELF_S, AFTER_TERM_S = 3.0, 5.0


def guard(lifeline: int, answer: int, command: list[str]) -> int:
    """Run `salloc` to its end, or end it when the lifeline ends; its exit code."""
    own = [sys.executable, "-I", "-S", os.path.abspath(__file__), "hold", str(lifeline), str(answer)]
    pid = os.fork()
    if pid == 0:
        try:
            for fd in (lifeline, answer):
                os.set_inheritable(fd, True)
            os.execvp(command[0], [*command[:-1], *own])
        finally:
            os._exit(127)
    os.close(answer)
    # Whatever asks us to end asks the launcher too, and it lets go when it is ready.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(ended, select.POLLIN)
    ready = [fd for fd, _ in poll.poll()]
    if ended not in ready:
        end(ended)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def end(process: int) -> None:
    """Wait until the process of this pidfd ends: by itself, when it is told to, or by force."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    for patience_s, number in ((BY_ITSELF_S, signal.SIGTERM), (AFTER_TERM_S, signal.SIGKILL)):
        if poll.poll(1000.0 * patience_s):
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


def hold(lifeline: int, answer: int) -> int:
    """Say that the allocation is there, and stay until the launcher or `salloc` is gone."""
    parent = os.getppid()
    salloc = os.pidfd_open(parent)
    job = os.environ["SLURM_JOB_ID"]
    os.write(answer, f"{job} {parent}\n".encode())
    os.close(answer)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(salloc, select.POLLIN)
    gone = [fd for fd, _ in poll.poll()]
    if salloc in gone:
        # nobody is left who would give it back
        os.execvp("scancel", ["scancel", job])
    return 0


def main(arguments: list[str]) -> int:
    """See the module's docstring."""
    kind, lifeline, answer, *command = arguments
    if kind == "hold":
        return hold(int(lifeline), int(answer))
    code = guard(int(lifeline), int(answer), command)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
