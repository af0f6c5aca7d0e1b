"""A rank supervisor resumes its program at the end of each node manager."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apples.hosts import rankwrapper

HOLD = b'{"hold":null}\n'


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("monitored", [False, True])
def test_rank_is_resumed_at_the_end_of_each_node_manager(tmp_path, monitored):
    path = str(tmp_path / "n.sock")
    environment = {
        **os.environ,
        "APPLES_NODE_SOCKET": path,
        "APPLES_JOB": "j",
        "PMI_RANK": "0",
        "PMI_SIZE": "1",
    }
    if monitored:
        environment["APPLES_MONITOR"] = str(tmp_path)
    words = [sys.executable, "-I", "-S", rankwrapper.__file__, str(tmp_path), "localhost:1", "--"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with subprocess.Popen(
            [*words, "sh", "-c", "echo $$; exec sleep 60"], env=environment, stdout=-1
        ) as rank:
            program = int(rank.stdout.readline())
            for first in (True, False):
                connection, _ = listener.accept()
                asked = connection.recv(4096)
                registers = first and not monitored
                assert asked.startswith(b'{"register"') if registers else asked == HOLD
                connection.send(b'{"registered":{}}\n' if registers else b'{"held":{}}\n')
                os.killpg(program, signal.SIGSTOP)
                while state(program) != "T":
                    time.sleep(0.01)
                time.sleep(0.1)
                connection.close()
                deadline = time.monotonic() + 5.0
                while state(program) == "T":
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
            # Stopped by a node manager that was killed before the supervisor could hold it.
            listener.close()
            os.killpg(program, signal.SIGSTOP)
            deadline = time.monotonic() + 5.0
            while state(program) != "T":
                time.sleep(0.001)
            while state(program) == "T":
                assert time.monotonic() < deadline
                time.sleep(0.01)
            rank.terminate()
