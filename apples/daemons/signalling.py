"""Sends a signal to a registered process or the process group that it leads, safely against reuse of pids.

Used by the node manager and by its watchdog, a bare script; so it imports little.
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
    """Send to process group `group` that the process of `pidfd` leads, or to the process alone if the value is 0.

    Returns False if the process has ended. Raises `PermissionError` if it now belongs to another user.
    """
    try:
        # One call that can hit neither another process nor another group.
        signal.pidfd_send_signal(pidfd, number, None, _PROCESS_GROUP if group else 0)
    except ProcessLookupError:
        return False
    except OSError as error:
        # EINVAL: the kernel does not know the flag yet.
        if error.errno != errno.EINVAL or not group:
            raise
        return _send_to_group(pidfd, number, group)
    return True


def _send_to_group(pidfd: int, number: int, group: int) -> bool:
    """Send on older kernels: until the leader has been waited for, no other group can have its number."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if poll.poll(0):
        # The rest of a group that was stopped would stay so for ever.
        if number == signal.SIGCONT:
            _continue_rest(pidfd, group)
        return False
    try:
        # Between poll and this call the leader may end, but its number stays taken until it is waited for.
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _continue_rest(pidfd: int, group: int) -> None:
    """Resume the members that a dead leader has left: while there are any, the group number is not reused."""
    # While the number of the leader is its own or free, the group with this number is ours.
    if not _waited_for(pidfd) or not os.path.exists(f"/proc/{group}"):
        for name in os.listdir("/proc"):
            if name.isdecimal() and int(name) != group:
                with suppress(OSError):
                    _continue_member(int(name), group)


def _waited_for(pidfd: int) -> bool:
    try:
        # Signal 0 checks only.
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _continue_member(pid: int, group: int) -> None:
    if os.getpgid(pid) != group:
        return
    # From here on the number cannot move to another process unnoticed.
    pidfd = os.pidfd_open(pid)
    try:
        # Looked at again while the descriptor holds it.
        if os.getpgid(pid) == group:
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    finally:
        os.close(pidfd)
