"""The processes that a host agent starts for the launcher: `mpiexec`, its proxies, or file-descriptor servers.

Imported by the host agent, so it imports little.
"""

from __future__ import annotations

import os
import signal
import sys

from apples.hosts.kernel import PR_SET_PDEATHSIG, children, prctl, reaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Variables of ranks: the interpreter and the rank wrapper of this host.
_WRAPPER = {
    "APPLES_PYTHON": sys.executable,
    "APPLES_WRAPPER": os.path.join(os.path.dirname(os.path.abspath(__file__)), "rankwrapper.py"),
}


class Proxies:
    """The proxies of one host. Each dies with this process, and inherits the descriptors that its ranks need.

    handed : these descriptors; closed here when the last proxy has been started, so that the end of the last process
        can be seen.  expected : number of proxies that will be started
    """

    def __init__(self, handed: tuple[int, ...], expected: int) -> None:
        self._handed, self._expected = handed, expected
        self._numbers: dict[int, int] = {}
        self._swept: set[int] = set()

    @property
    def running(self) -> bool:
        """Whether a proxy has not ended."""
        return bool(self._numbers)

    def start(self, number: int, command: list[str], environment: Mapping[str, str]) -> None:
        """Start one proxy; `number` is the launcher's name for it."""
        # Numbers: descriptors keep theirs through fork and exec, and hydra passes them on to its ranks.
        environment = {**environment, **_WRAPPER, "APPLES_RANK_FDS": ",".join(map(str, self._handed))}
        agent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                # Signals to the group of the agent are not meant for its proxies.
                os.setsid()
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                # The proxy's own output goes to the agent's stderr.
                for source, target in ((os.open(os.devnull, os.O_RDWR), 0), (2, 1)):
                    os.dup2(source, target)
                for fd in self._handed:
                    # In the child only: other commands that the agent starts must not hold the lifeline.
                    os.set_inheritable(fd, True)
                # An ignored signal stays ignored after exec, and programs rely on SIGPIPE.
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                # Else it has died already, and nothing would end this proxy.
                if os.getppid() == agent:
                    os.execve(command[0], command, environment)
            except OSError as error:
                os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode(errors="replace"))
            finally:
                os._exit(125)
        self._numbers[pid] = number
        self._expected -= 1
        if self._expected == 0:
            # The end of `events` can be seen only when the agent itself holds no copy.
            self.let_go()

    def let_go(self) -> None:
        """Close the descriptors that proxies inherit; none can be started any more. Idempotent."""
        for fd in self._handed:
            os.close(fd)
        self._handed = ()

    def ended(self) -> Iterator[tuple[int, int]]:
        """Reap children that have ended; yield (number, exit code) of each proxy among them."""
        for pid, status in reaped():
            if pid in self._numbers:
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                yield self._numbers.pop(pid), code

    def kill(self) -> None:
        """Kill the proxies and their children."""
        # Children first: those of a proxy that has ended belong to another process, and are not found.
        _kill(each for pid in self._numbers for each in (*children(pid), pid))

    def sweep(self) -> None:
        """Kill remaining processes: orphans are children of this process, as ranks that a rank has spawned."""
        while left := [pid for pid in children(os.getpid()) if pid not in self._swept]:
            _kill(left)
            self._swept.update(left)
            # Their children become this process's when they have ended.
            for pid in left:
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
