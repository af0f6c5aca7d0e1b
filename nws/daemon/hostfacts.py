"""Facts of this host for its registration: CPUs, their model, memory, the version of this program."""

import math
import os
from functools import cache
from importlib import metadata
from pathlib import Path

from nws.sensors.cgroups import Cgroups


def host_facts(root: Path = Path("/proc")) -> dict[str, object]:
    """Return `cpus` that child processes can keep busy, `cpu_model`, `memory_bytes` installed, `version`.

    Unknown values are empty or 0.
    """
    quotas = [math.ceil(limit.cpus) for limit in Cgroups().cpu_limits()]
    return {
        "cpus": max(1, min([len(os.sched_getaffinity(0)), *quotas])),
        "cpu_model": _field(root / "cpuinfo", "model name")[:200],
        "memory_bytes": _kilobytes(_field(root / "meminfo", "MemTotal")) * 1024,
        "version": _version(),
    }


def _field(path: Path, name: str) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        return ""
    return ""


def _kilobytes(text: str) -> int:
    number = text.split()[0] if text else ""
    return int(number) if number.isdecimal() else 0


@cache
def _version() -> str:
    try:
        return metadata.version("apples-grid")
    except metadata.PackageNotFoundError:
        return ""
