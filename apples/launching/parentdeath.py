"""Ties `mpiexec` to the launcher: when the launcher dies, the kernel kills `mpiexec` at once.

Run as a bare script, `python -I -S parentdeath.py LAUNCHER_PID PROGRAM ARGUMENTS`; it sets the parent-death signal
and becomes the program. (Doing this between fork and exec in the launcher is unsafe where it has threads.)
`hydra_pmi_proxy` ends itself and its ranks when `mpiexec` is gone; see docs/launching.md for what dies when.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become `arguments[1:]`, killed as soon as process `arguments[0]` is gone."""
    launcher, command = int(arguments[0]), arguments[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == launcher:
        os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
