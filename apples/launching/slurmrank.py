"""What Slurm starts for every rank: fetches from this host's door what keepers need, and becomes the rank wrapper.

Run as a bare script, `python -I -S slurmrank.py NAME RUN_DIR HOSTS [--label] -- PROGRAM ARGUMENTS`. From there on a
rank of a Slurm step is watched as one that hydra has started: the same front, keeper and program (`rankwrapper.py`).
"""

from __future__ import annotations

import _socket
import json
import os
import struct
import sys
import time

if __name__ == "__main__":
    # `-I -S` leaves nothing but the standard library on the path.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from apples.launching import rankwrapper
from apples.launching.ranksupervisor import LOST

#: Seconds until the door has to be open: it is started before the ranks are.
OPEN_S, RETRY_S = 30.0, 0.02


def group_of(rank: int, hosts: str) -> int:
    """Which entry of `alpha:2,beta:1` a rank belongs to; each has a door of its own."""
    before = 0
    for number, entry in enumerate(hosts.split(",")):
        before += int(entry.rpartition(":")[2])
        if rank < before:
            return number
    raise ValueError(f"no rank {rank} in {hosts}")


def fetch(name: str) -> tuple[tuple[int, ...], dict[str, str]]:
    """Descriptors and variables that the door gives; raises `OSError` when it does not open in time."""
    deadline = time.monotonic() + OPEN_S
    while True:
        door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            door.connect("\0" + name)
        except ConnectionRefusedError:
            door.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
            continue
        size = struct.calcsize("4i")
        message, given, _, _ = door.recvmsg(1 << 16, _socket.CMSG_SPACE(size))
        door.close()
        if not given:
            raise ConnectionRefusedError(0, "the door was closed")
        fds: tuple[int, ...] = struct.unpack("4i", given[0][2][:size])
        return fds, json.loads(message)


def main(arguments: list[str]) -> None:
    """Become the rank wrapper of this rank. Does not return."""
    name, *words = arguments
    rank = os.environ.setdefault("PMI_RANK", os.environ.get("SLURM_PROCID", "0"))
    try:
        fds, variables = fetch(f"{name}-{group_of(int(rank), words[1])}")
    except OSError as error:
        os.write(2, f"apples: rank {rank} finds nobody who watches over it: {error.strerror}\n".encode())
        os._exit(LOST)
    os.environ.update(variables)
    os.environ["APPLES_RANK_FDS"] = ",".join(map(str, fds))
    rankwrapper.main(words)


if __name__ == "__main__":
    main(sys.argv[1:])
