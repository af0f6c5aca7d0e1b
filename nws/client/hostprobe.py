"""What one host finds out of itself in a moment, and of its links to others, for a check that somebody asks for.

No store and no forecast: a few looks at the CPUs and the median of them, for a session that starts is busy for a moment
itself. The far end of a link probe is an echo server that lives as long as the check. Source: Wolski et al. 2000, §2.4.
"""

from __future__ import annotations

import math
import os
from statistics import median

from nws.base.errors import ProbeError
from nws.sensors.cgroups import Cgroups
from nws.sensors.cpu import CpuSensor
from nws.sensors.echo import EchoServer
from nws.sensors.memory import MemorySensor
from nws.sensors.network import NetworkSensor, ProbePlan
from nws.series import Resource

#: A link probe of a check is short: its transfer lasts so long, and is so large at most.
QUICK = ProbePlan(round_trips=11, enough_s=0.05, most_bytes=8 << 20, timeout_s=5.0, connect_s=3.0)

#: Looks at the CPUs, 0.3 s each.
LOOKS = 3


def survey() -> dict[str, float | int | None]:
    """CPU and memory of this host now; raises `ProbeError` where the system does not say.

    availability : share of one CPU that a new process gets.  capacity : CPUs that one new process per usable CPU get
    quota : CPUs that control groups leave us, None without a limit.  cpus : CPUs that can be kept busy
    memory_bytes : bytes a new process can touch.  load : processes that ran or wanted to, over the last minute
    """
    limits = Cgroups()
    sensor = CpuSensor(host="here")
    looks = [{m.series.resource: m.value for m in sensor.measure()} for _ in range(LOOKS)]
    quotas = [limit.cpus for limit in limits.cpu_limits()]
    usable = len(os.sched_getaffinity(0))
    return {
        "availability": median(look[Resource.CPU_NEW] for look in looks),
        "capacity": median(look[Resource.CPU_CAPACITY] for look in looks),
        "quota": min(quotas, default=None),
        "cpus": max(1, min([usable, *(math.ceil(q) for q in quotas)])),
        "memory_bytes": MemorySensor(host="here").measure()[0].value,
        "load": os.getloadavg()[0],
    }


def serve(address: str) -> EchoServer:
    """An echo server on a free port of that numeric address, for peers to probe; raises `ProbeError`."""
    return EchoServer(address)


def link(peer: str, address: tuple[str, int], within_s: float) -> dict[str, float | str]:
    """Latency (one way, s) and bandwidth (bytes/s) to a peer's echo server, or the `error`."""
    sensor = NetworkSensor(host="here", peer=peer, address=address, plan=QUICK)
    try:
        found = {m.series.resource: m.value for m in sensor.measure(within_s=within_s)}
    except ProbeError as error:
        return {"error": str(error)}
    return {"latency_s": found[Resource.LATENCY], "bandwidth_Bps": found[Resource.BANDWIDTH]}
