"""A sensor stays small: what it must never load."""

import subprocess
import sys

_HEAVY = ("numpy", "numba", "pydantic", "networkx", "starlette", "uvicorn", "nws.memory", "nws.service")
_PROGRAM = f"""
import sys
import nws.cli.sensor, nws.daemon.daemon, nws.sensors.cpu, nws.sensors.freememory, nws.sensors.network
import requests, orjson, apscheduler.schedulers.background
print(*[name for name in {_HEAVY} if name in sys.modules])
"""


def test_daemon_loads_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
