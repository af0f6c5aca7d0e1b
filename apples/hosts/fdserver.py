"""Passes descriptors from a host agent to ranks that inherit none: lifeline, events, stdout, stderr, and variables.

    hostagent.py fds NAME RANKS          started by the host agent, as it starts a proxy of `mpiexec`

Ranks of a Slurm step are children of slurmstepd, and Open MPI closes all descriptors of its ranks. Each rank wrapper
therefore connects to an abstract socket (`fetch`), whose name is random and which accepts the same user only. The
server ends when all ranks have connected, or with the lifeline.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time

#: Variables of the agent that its ranks get: the network interface that MPI is to use on this host, its node manager.
HANDED = ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include", "APPLES_NODE_SOCKET")

#: Seconds until the server has to listen, and between attempts: it is started before the ranks are.
OPEN_S, RETRY_S = 30.0, 0.02


def main(arguments: list[str]) -> int:
    """Serve the ranks of one host; return 1 if the lifeline ended first."""
    import socket

    name, ranks = arguments[1], int(arguments[2])
    fds = [int(fd) for fd in os.environ["APPLES_RANK_FDS"].split(",")]
    lifeline = fds[0]
    variables = {key: os.environ[key] for key in HANDED if key in os.environ}
    message = json.dumps(variables).encode() + b"\n"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    # All ranks of a host connect at once.
    listener.listen(ranks + 8)
    poll = select.poll()
    # Else a server whose ranks never start would outlive its run.
    poll.register(lifeline, select.POLLIN)
    poll.register(listener.fileno(), select.POLLIN)
    while ranks:
        if lifeline in [fd for fd, _ in poll.poll()]:
            return 1
        # The wrapper reads its answer and closes; it never sends anything.
        rank, _ = listener.accept()
        credentials = rank.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        # Abstract sockets have no permissions; the name alone would have to be secret.
        if struct.unpack("3i", credentials)[1] == os.getuid():
            rank.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("4i", *fds))])
            ranks -= 1
        rank.close()
    return 0


def ranks_by_host(hosts: str) -> dict[str, int]:
    """Return the hosts of `alpha:2,beta:1,alpha:1` with their ranks, in the order of their first ranks.

    >>> ranks_by_host("alpha:2,beta:1,alpha:1")
    {'alpha': 3, 'beta': 1}
    """
    ranks_of: dict[str, int] = {}
    for entry in hosts.split(","):
        host, _, ranks = entry.rpartition(":")
        ranks_of[host] = ranks_of.get(host, 0) + int(ranks)
    return ranks_of


def server_of(name: str, host: str, hosts: str) -> str:
    """Return the name of a host's server."""
    return f"{name}-{list(ranks_by_host(hosts)).index(host)}"


def fetch(server_name: str) -> tuple[tuple[int, ...], dict[str, str]]:
    """Return the descriptors and variables for a rank; raises `OSError` if the server does not listen in time."""
    import _socket

    deadline = time.monotonic() + OPEN_S
    while True:
        server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            server.connect("\0" + server_name)
        except ConnectionRefusedError:
            server.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
            continue
        size = struct.calcsize("4i")
        message, given, _, _ = server.recvmsg(1 << 16, _socket.CMSG_SPACE(size))
        server.close()
        if not given:
            raise ConnectionRefusedError(0, "the file-descriptor server ended")
        fds: tuple[int, ...] = struct.unpack("4i", given[0][2][:size])
        return fds, json.loads(message)
