"""Sends a signal to a registered process, or to its process group where it leads one, safely against reuse of pids.

Used by the node manager and by its watchdog, a bare script; so it imports little and decides nothing.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from contextlib import suppress

#: Flag of pidfd_send_signal since Linux 6.9; Python has no name for it.
_PROCESS_GROUP = 4


def send(pidfd: int, number: int, group: int) -> bool:
    """Send to process group `group` that the process of `pidfd` leads, or to the process alone where it is 0.

    False when the process has ended. Raises `PermissionError` when it has become somebody else's.
    """
    try:
        signal.pidfd_send_signal(pidfd, number, None, _PROCESS_GROUP if group else 0)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno != errno.EINVAL or not group:
            raise
        return _send_to_group(pidfd, number, group)
    return True


def _send_to_group(pidfd: int, number: int, group: int) -> bool:
    """The same on older kernels: while the leader has not been waited for, nobody else can have its number."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if poll.poll(0):
        # The rest of a group that was stopped would stay so for ever.
        if number == signal.SIGCONT:
            _continue_rest(pidfd, group)
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _continue_rest(pidfd: int, group: int) -> None:
    """Resume those that a dead leader has left in its group: while there are any, the number is nobody else's."""
    if not _waited_for(pidfd) or not os.path.exists(f"/proc/{group}"):
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != group:
                with suppress(OSError):
                    _continue_member(int(name), group)


def _waited_for(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _continue_member(pid: int, group: int) -> None:
    if os.getpgid(pid) != group:
        return
    pidfd = os.pidfd_open(pid)
    try:
        # Looked at again while the descriptor holds it.
        if os.getpgid(pid) == group:
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    finally:
        os.close(pidfd)
