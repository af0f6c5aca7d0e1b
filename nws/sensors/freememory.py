"""Free-memory sensor: bytes a new process can touch before paging or an out-of-memory kill.

The kernel's own estimate for the host (MemAvailable), limited by the free memory of each of our memory cgroups, at any
level. The paper added this sensor to NWS for its memory constraint (Wolski et al. 2000, §2.4, §3.2).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nws.sensors.cgrouplimits import Cgroups
from nws.sensors.procfs import ProcFs
from nws.series import Measurement, Resource, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySensor:
    """Measures MEMORY_FREE of this host, in bytes."""

    host: str
    clock: Callable[[], float] = time.time
    proc: ProcFs = field(default_factory=ProcFs)
    cgroups: Cgroups = field(default_factory=Cgroups)

    def measure(self) -> list[Measurement]:
        """Return free memory now; raises `ProbeError` if the system does not report it."""
        free = self.proc.memory_available()
        for limit in self.cgroups.memory_limits():
            free = min(free, limit.free_bytes)
        return [Measurement(Series(Resource.MEMORY_FREE, self.host), self.clock(), free)]
