"""The memory that this process occupies."""

import os


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM, in bytes; 0 if /proc does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
