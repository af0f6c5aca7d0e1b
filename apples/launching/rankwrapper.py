"""What hydra starts for every rank: the *front*, which forks the keeper and ends as the program did.

Started by path as a bare script (`python -I -S rankwrapper.py RUN_DIR HOSTS [--label] -- PROGRAM ARGUMENTS`), so
it and what it imports use only what they cannot do without. Per rank there are three processes:

    hydra_pmi_proxy ── front ── keeper ── program
                       (waits)  (records)

hydra kills the front without warning when any rank fails. The keeper stands in a session of its own, so it lives
long enough to see how the program really ended. Every link has a parent-death signal; whoever is killed, the
program goes. This is also where descriptors that hydra leaks into its ranks are closed: while a rank holds them,
`mpiexec` cannot see that its proxy is dead.

The environment variable `APPLES_RANK_FDS` holds four inherited descriptors: lifeline, events, stdout, stderr.
Without it (a command pasted from `--dry-run`) output goes through hydra and only the parents are watched.
"""

from __future__ import annotations

import os
import select
import signal
import sys

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.launching.kernel import FORWARDED, PR_SET_PDEATHSIG, close_all_but, die_like, prctl
from apples.launching.ranksupervisor import LOST, RankSupervisor
from apples.launching.statusfile import StatusFile, host_of


def main(arguments: list[str]) -> None:
    """Start the keeper, pass signals on to it, end as the program did. Does not return."""
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    fds = inherited_fds()
    if os.getppid() != parent or parent == 1 or parent_gone(fds):
        os._exit(LOST)
    close_all_but(set(fds.values()))
    split = arguments.index("--")
    (run_dir, hosts, *options), command = arguments[:split], arguments[split + 1 :]
    rank = int(os.environ.get("PMI_RANK", "0"))
    front = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            status = StatusFile(run_dir, rank, host_of(rank, hosts), fds.get("events"))
            keeper = RankSupervisor(status, command, label="--label" in options, fds=fds)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            die_like(keeper.run(front))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(LOST)
    for number in FORWARDED:
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    die_like(os.waitpid(pid, 0)[1])


def inherited_fds() -> dict[str, int]:
    """Descriptors by purpose; takes our variable out of the program's environment."""
    fds = {}
    ours = os.environ.pop("APPLES_RANK_FDS", "")
    if ours:
        fds = dict(zip(("lifeline", "events", "stdout", "stderr"), map(int, ours.split(",")), strict=True))
    if "PMI_FD" in os.environ:
        fds["pmi"] = int(os.environ["PMI_FD"])
    return fds


def parent_gone(fds: dict[str, int]) -> bool:
    """Whether the other end of PMI is closed already: the parent died before we asked for its death signal."""
    if "pmi" not in fds:
        return False
    poll = select.poll()
    poll.register(fds["pmi"], 0)
    return bool(poll.poll(0))


if __name__ == "__main__":
    main(sys.argv[1:])
