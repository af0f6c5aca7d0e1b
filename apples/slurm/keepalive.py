"""The allocation keep-alive: holds an allocation while the launcher lives, and releases it when the launcher ends.

It runs once around `salloc` and once as the command that `salloc` runs:

    hostagent.py guard LIFELINE ANSWER SALLOC OPTIONS... hold
    hostagent.py hold LIFELINE ANSWER            (replaces the last word of the guard's command)

LIFELINE is the read end of a pipe whose other end only the launcher has. The holder writes the number of the job and
the process of `salloc` to ANSWER when the nodes are allocated. An `salloc` that is killed leaves its job in the queue,
or its allocation. It is therefore asked to end, and killed only if it does not.
"""

import contextlib
import os
import select
import signal

from apples.hosts.hostagent import helper

#: Seconds `salloc` may take to give the allocation back, first by itself, then after TERM.
BY_ITSELF_S, AFTER_TERM_S = 3.0, 5.0


def guard(lifeline: int, answer: int, command: list[str]) -> int:
    """Run `salloc` to its end, or end it with the lifeline; return its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            for fd in (lifeline, answer):
                os.set_inheritable(fd, True)
            os.execvp(command[0], [*command[:-1], *helper("hold", str(lifeline), str(answer))])
        finally:
            os._exit(127)
    os.close(answer)
    # The launcher gets these signals too, and closes the lifeline when it is ready.
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
    """Wait for the end of the process of this pidfd: by itself, after TERM, or after KILL."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    for patience_s, number in ((BY_ITSELF_S, signal.SIGTERM), (AFTER_TERM_S, signal.SIGKILL)):
        if poll.poll(1000.0 * patience_s):
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


def hold(lifeline: int, answer: int) -> int:
    """Report that the nodes are allocated, and wait for the end of the launcher or of `salloc`."""
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
        # No process is left that would release it.
        os.execvp("scancel", ["scancel", job])
    return 0


def main(arguments: list[str]) -> int:
    """Run the guard or the holder; return the exit code."""
    kind, lifeline, answer, *command = arguments
    if kind == "hold":
        return hold(int(lifeline), int(answer))
    code = guard(int(lifeline), int(answer), command)
    return 128 - code if code < 0 else code
