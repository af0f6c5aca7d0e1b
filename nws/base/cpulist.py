"""Lists of CPUs as the kernel, `lscpu` and `taskset` write them: `0-3,8`."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nws.base.quantities import Parsed

#: Highest number of CPUs for which Linux is built.
_MOST = 8192


def parse_list(text: str) -> tuple[int, ...]:
    """Return the numbers in a list, each once; raises `ValueError` with the part that is wrong."""
    cpus: dict[int, None] = {}
    for part in text.split(","):
        ends = [end.strip() for end in part.split("-")]
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() and len(end) < 6 for end in ends):
            raise ValueError(f"{part.strip()!r} is no CPU; legal are numbers and ranges, as 0-3,6")
        first, last = int(ends[0]), int(ends[-1])
        if not first <= last < _MOST:
            raise ValueError(f"{part.strip()} is no range of CPUs; legal are numbers below {_MOST}, as 0-3,6")
        cpus.update(dict.fromkeys(range(first, last + 1)))
    return tuple(cpus)


def list_of(cpus: Iterable[int]) -> str:
    """Return the numbers as a list with ranges."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def overlaps(cpus: Mapping[str, Collection[int]]) -> bool:
    """Return whether a CPU occurs twice, or an entry has none and so means all of them."""
    listed = [cpu for some in cpus.values() for cpu in some]
    return len(cpus) > 1 and (len(set(listed)) < len(listed) or not all(cpus.values()))


class CpuList(Parsed):
    """An annotation of CPU numbers, in a file a number or a list."""

    def parse(self, value: Any) -> tuple[int, ...]:
        """Return the numbers; raises `ValueError`."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{value!r} is no list of CPUs; legal are numbers and ranges, as 0-3,6")
        return parse_list(str(value))
