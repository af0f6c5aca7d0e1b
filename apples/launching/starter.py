"""The command that starts the ranks of several hosts: `mpiexec` or `srun`, its remote shells, and its end."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from apples.launching.command import with_parent_death
from apples.launching.remoteshellserver import RemoteShellServer

#: Seconds that the command may take to end when no process is left on any host.
LEFT_BEHIND_S = 2.0


class Starter:
    """The process of the command. It dies with the launcher.

    shells : its remote shells.  fd : readable when the process has ended.  over : it was seen to end
    kill_at : when it will be killed (`time.monotonic`), None for not yet known
    """

    def __init__(
        self, command: list[str], environment: Callable[[str], Mapping[str, str]], log: Path, *, shell: bool
    ) -> None:
        """Start it; raises `OSError`.

        Args:
            environment: builds its environment from the name of the socket for its remote shells
            log: file for its output
            shell: its remote shells are given texts for a shell
        """
        self.over = False
        self.kill_at: float | None = None
        self.shells = RemoteShellServer(shell=shell)
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    with_parent_death(command, os.getpid()),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment(self.shells.name),
                    # A Ctrl-C at the terminal must reach the ranks once, through the launcher.
                    start_new_session=True,
                )
        except OSError:
            self.shells.close()
            raise
        self.fd = os.pidfd_open(self._process.pid)

    def end_soon(self) -> bool:
        """Return whether it has ended. If not, it is killed soon: no process is left on any host."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + LEFT_BEHIND_S
        return self.over

    def check_time(self) -> None:
        """Kill it if its time is over."""
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill()

    def kill(self) -> None:
        """Kill it if it runs."""
        self._process.kill()

    def close(self) -> int:
        """Kill it if it runs, and close its remote shells; return its exit code, negative for a signal."""
        self._process.kill()
        code = self._process.wait()
        os.close(self.fd)
        self.shells.close()
        return code
