"""The processes that have the CPUs of a busy machine."""

import subprocess
import sys

from nws.client.busiest import busiest_processes


def test_busiest_processes_names_one_that_spins():
    command = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    with subprocess.Popen(command) as spinner:
        try:
            # more than three others may use as much for a moment
            seen = [line for _ in range(20) for line in busiest_processes()]
            assert any(f"process {spinner.pid} of " in line for line in seen)
        finally:
            spinner.kill()
