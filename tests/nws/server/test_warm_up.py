"""No request waits for the compiler."""

import subprocess
import sys

PROGRAM = """
import gc
from numba.core.dispatcher import Dispatcher
from nws.series import Measurement, Series
from nws.server.serve import warm_up
from nws.service.serviceconfig import ServiceConfig
from nws.testing import InMemoryServer

def versions():
    return {f.__qualname__: len(f.overloads) for f in gc.get_objects() if isinstance(f, Dispatcher)}

warm_up()
before = versions()
with InMemoryServer(ServiceConfig(grid="lab"), clock=lambda: 30.0) as server, server.client() as client:
    for host in "ab":
        server.register(host, cpus=2, cpu_model="A", site="lab", address="10.0.0.1")
        server.put([Measurement(Series.parse(f"cpu.new@{host}"), float(t), 0.5) for t in range(30)])
    client.forecasts(["cpu.new@a"], over_s=(60.0,))
    client.snapshot(composed=True)
    client.snapshot(over_s=[60.0, 600.0])
print({name for name, count in versions().items() if count != before[name]})
"""


def test_requests_use_only_kernels_that_are_compiled_before_the_server_listens():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")
