"""What the batch systems on a testbed share: commands on their server, waits that end, and the ends of their logs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

from .errors import TestbedError
from .grid import Testbed


class BatchSystem:
    """A cluster on a testbed that is up; it ends with the testbed. slots : of each node

    name : of its directory in the testbed's.  environment : of its commands, as words `NAME=value`
    logs_like : pattern of the names of its logs.  pause_s : between two looks while it waits
    """

    name = ""
    environment: tuple[str, ...] = ()
    logs_like = "*.log"
    pause_s = 0.2

    def __init__(self, testbed: Testbed, server: str, nodes: Sequence[str], slots: int = 2) -> None:
        self.testbed, self.server, self.nodes, self.slots = testbed, server, tuple(nodes), slots
        self.directory = testbed.directory / self.name

    def called(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the server."""
        return self.testbed.run(self.server, "env", *self.environment, *command, timeout_s=180)

    def asked(self, *command: str) -> str:
        """Return the output of a command on the server; raises `TestbedError` with the logs if it fails."""
        result = self.called(*command)
        if result.returncode != 0:
            raise TestbedError(f"{' '.join(command)}: {result.stdout}{result.stderr}{self.logs()}")
        return result.stdout

    def until(self, is_so: Callable[[], bool], otherwise: str, seconds: float) -> None:
        """Wait until something is so; raises `TestbedError` with the logs if it is not after so many seconds."""
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                raise TestbedError(f"{otherwise}\n{self.logs()}")
            time.sleep(self.pause_s)

    def script(self, host: str, text: str) -> None:
        """Run a script on a host; raises `TestbedError` with the logs if it fails."""
        try:
            self.testbed.script(host, text, self.directory / f"script-{host}.log")
        except TestbedError as error:
            raise TestbedError(f"{error}\n{self.logs()}") from error

    def logs(self) -> str:
        """Return the last lines of each daemon's log."""
        found = []
        for path in sorted(self.directory.rglob(self.logs_like)):
            found += [f"{path}:", *path.read_text(errors="replace").splitlines()[-8:]]
        return "\n".join(found)
