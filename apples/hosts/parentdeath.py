"""The parent-death wrapper: ties a command to the launcher, so that the kernel kills it when the launcher dies.

    hostagent.py exec LAUNCHER_PID PROGRAM ARGUMENTS...

It sets the parent-death signal and becomes the program. A launcher with threads cannot do this between fork and exec.
`hydra_pmi_proxy` ends itself and its ranks when `mpiexec` dies; docs/launching.md has a table.
"""

import os
import signal

from apples.hosts.kernel import PR_SET_PDEATHSIG, prctl


def main(arguments: list[str]) -> int:
    """Become the program. Return only if the launcher has ended already."""
    launcher, command = int(arguments[1]), arguments[2:]
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == launcher:
        os.execv(command[0], command)
    return 0
