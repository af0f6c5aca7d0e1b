"""The remote shell of `mpiexec`: it hands a command to the launcher, whose host agent starts it on the host.

    hostagent.py rsh [OPTIONS] HOST COMMAND...          client, one for each proxy or file-descriptor server

`APPLES_RSH` names the launcher's abstract socket. The client waits for the end of the command and ends with its exit
code, as ssh does. The launcher's side is
`apples.launching.starter`.
"""

import _socket
import json
import os


def main(arguments: list[str]) -> int:
    """Return the exit code of the command, 255 if the launcher is gone."""
    words = arguments[1:]
    # Options of ssh that Open MPI adds mean nothing here.
    while words and words[0].startswith("-"):
        words = words[1:]
    try:
        answer = order(words[0], words[1:]).recv(64)
    except OSError:
        return 255
    # Without an answer the launcher has ended, as an ssh connection breaks.
    return int(answer) & 0xFF if answer else 255


def order(host: str, command: list[str]) -> _socket.socket:
    """Ask the launcher to run a command on a host; return the connection, on which the exit code will be sent."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect("\0" + os.environ["APPLES_RSH"])
    connection.send(json.dumps({"host": host, "command": command}).encode() + b"\n")
    return connection
