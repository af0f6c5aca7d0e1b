"""Hands what the ranks of one host need to those that Slurm starts there: lifeline, events, outputs, variables.

Run as a bare script by the host's station, in the place of `mpiexec`'s proxy: `python -I -S fdserver.py NAME RANKS`.
Ranks of a Slurm step are children of slurmstepd and inherit nothing from us, so each calls at an abstract socket of
that name (see `slurmrank.py`), which nobody guesses and only the same user may use. Ends when all ranks have been
there, or when the lifeline does.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys

#: Variables of the station that its ranks get: the interface that MPI is to use on this host.
HANDED = ("UCX_NET_DEVICES", "FI_TCP_IFACE")


def main(arguments: list[str]) -> int:
    """Serve so many ranks."""
    name, ranks = arguments[0], int(arguments[1])
    fds = [int(fd) for fd in os.environ["APPLES_RANK_FDS"].split(",")]
    lifeline = fds[0]
    variables = {key: os.environ[key] for key in HANDED if key in os.environ}
    message = json.dumps(variables).encode() + b"\n"
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind("\0" + name)
    door.listen(ranks + 8)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(door.fileno(), select.POLLIN)
    while ranks:
        if lifeline in [fd for fd, _ in poll.poll()]:
            return 1
        visitor, _ = door.accept()
        credentials = visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", credentials)[1] == os.getuid():
            visitor.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("4i", *fds))])
            ranks -= 1
        visitor.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
