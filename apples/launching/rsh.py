"""What `mpiexec` calls instead of a remote shell: hands the command to the launcher, whose station starts it there.

    python -I -S rsh.py [OPTIONS] HOST COMMAND...

`APPLES_RSH` names the launcher's socket (abstract, of this user alone). Waits until the command has ended there, and
ends with its code; so to `mpiexec` it is a remote shell like any other.
"""

from __future__ import annotations

import _socket
import json
import os
import sys


def main(arguments: list[str]) -> int:
    """Exit code of the command, 255 where the launcher is gone."""
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[1:]
    line = json.dumps({"host": arguments[0], "command": arguments[1:]}) + "\n"
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect("\0" + os.environ["APPLES_RSH"])
        connection.send(line.encode())
        answer = connection.recv(64)
    except OSError:
        return 255
    return int(answer) & 0xFF if answer else 255


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
