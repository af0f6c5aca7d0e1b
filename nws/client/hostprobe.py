"""A short probe of this host and of its links to others, for a check on request.

No store and no forecast: a few readings of the CPUs and their median. The first reading does not count, because a
session that starts is busy for a moment itself. The far end of a link probe is an echo server with the lifetime of the
check. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import os
import time
from statistics import median

from nws.base.errors import ProbeError
from nws.sensors.cgrouplimits import Cgroups
from nws.sensors.cpu import CpuSensor
from nws.sensors.echo import EchoServer
from nws.sensors.freememory import MemorySensor
from nws.sensors.network import EchoConnection, NetworkSensor, ProbePlan, lost_share
from nws.series import Resource

#: A link probe of a check is short: its transfer lasts so long, and is so large at most.
QUICK = ProbePlan(round_trips=11, enough_s=0.05, most_bytes=8 << 20, timeout_s=5.0, connect_s=3.0)

#: Small messages that show the loss of a link.
MESSAGES = 400

#: Looks at the CPUs that count, 0.3 s each.
LOOKS = 3


def survey() -> dict[str, float | int | None]:
    """Return CPU and memory of this host now; raises `ProbeError` if the system does not report them.

    availability : share of one CPU of a new process.  capacity : CPUs of one new process per usable CPU together
    quota : CPUs by our control groups, None without a limit.  cpus : CPUs that can be kept busy
    memory_bytes : bytes a new process can touch.  load : processes that ran or waited, over the last minute
    """
    limits = Cgroups()
    sensor = CpuSensor(host="here")
    looks = []
    sensor.measure()
    for _ in range(LOOKS):
        values = {m.series.resource: m.value for m in sensor.measure()}
        looks.append((values[Resource.CPU_NEW], values[Resource.CPU_CAPACITY]))
    quotas = [limit.cpus for limit in limits.cpu_limits()]
    return {
        "availability": median(availability for availability, _ in looks),
        "capacity": median(capacity for _, capacity in looks),
        "quota": min(quotas, default=None),
        "cpus": limits.usable_cpus(),
        "memory_bytes": MemorySensor(host="here").measure()[0].value,
        "load": os.getloadavg()[0],
    }


def serve(address: str) -> EchoServer:
    """Return an echo server on a free port of that numeric address, for peers to probe; raises `ProbeError`."""
    return EchoServer(address)


def link(peer: str, address: tuple[str, int], within_s: float) -> dict[str, float | str]:
    """Return latency (one way, s) and bandwidth (bytes/s) to a peer's echo server, or the `error`."""
    sensor = NetworkSensor(host="here", peer=peer, address=address, plan=QUICK)
    try:
        values = {m.series.resource: m.value for m in sensor.measure(within_s=within_s)}
    except ProbeError as error:
        return {"error": str(error)}
    return {"latency_s": values[Resource.LATENCY], "bandwidth_Bps": values[Resource.BANDWIDTH]}


def loss(peer: str, address: tuple[str, int], within_s: float) -> dict[str, float | str]:
    """Return the share of messages to a peer's echo server that were lost on the way, or the `error`."""
    try:
        with EchoConnection(peer, address, until=time.perf_counter() + within_s) as link:
            return {"lost": lost_share(link.repeated(MESSAGES), MESSAGES)}
    except ProbeError as error:
        return {"error": str(error)}
