"""Lists of hosts as users write them: bracket expressions, `-H a:2,b`, and hostfiles.

`node[01-08,12],alpha` is the notation of Slurm, with zeros kept and several brackets per name. `fold` writes it and
`expand` reads it; one inverts the other, order and repetitions included. Hostfiles are those of `mpirun`: `host`,
`host:4` or `host slots=4` per line, `#` comments. A host named twice has the slots of both. The existence of a host
is not checked here.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from nws.base.errors import ConfigError

#: Most hosts in one expression; more are taken for a typing error.
MOST_HOSTS = 100_000

LEGAL = "alpha, node[01-08], node[1-4,7], each followed by :SLOTS if it has several, separated by commas"

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_ELEMENT = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.ASCII | re.DOTALL)
_SLOTS = re.compile(r"(.*?)(?::(.*)|\s+slots\s*=\s*(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSlots:
    """A host the user named; `slots` is None if its number of slots is not given."""

    name: str
    slots: int | None = None


def expand(expression: str) -> tuple[str, ...]:
    """Return host names in the order of the expression; raises `ConfigError` with every problem.

    >>> expand("node[08-10],alpha")
    ('node08', 'node09', 'node10', 'alpha')
    """
    names, problems = _expand(expression)
    if problems:
        raise ConfigError(problems)
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Return the shortest bracket expression that keeps the order; `expand(fold(names)) == tuple(names)`.

    >>> fold(["node08", "node09", "node10", "alpha"])
    'node[08-10],alpha'
    """
    runs: list[tuple[str, str, list[str]]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, number, suffix = match.groups() if match else (name, "", "")
        if runs and number and runs[-1][2] and runs[-1][:2] == (prefix, suffix):
            runs[-1][2].append(number)
        else:
            runs.append((prefix, suffix, [number] if number else []))
    return ",".join(_folded(prefix, suffix, numbers) for prefix, suffix, numbers in runs)


def parse_hosts(text: str, *, where: str = "-H") -> tuple[HostSlots, ...]:
    """Return the hosts of an option such as `a:2,node[1-4]`; raises `ConfigError` with every problem, after `where`."""
    hosts: list[HostSlots] = []
    problems: list[str] = []
    for element in _elements(text, problems):
        hosts += parse_entry(element, problems)
    if problems:
        raise ConfigError(f"{where}: {problem}" for problem in problems)
    return _merged(hosts)


def read_hostfile(path: Path) -> tuple[HostSlots, ...]:
    """Return the hosts of a hostfile; raises `ConfigError` with every problem as `file:line: …`."""
    return read_hosts(path, parse_entry)


def read_hosts(path: Path, parse: Callable[[str, list[str]], list[HostSlots]]) -> tuple[HostSlots, ...]:
    """Return the hosts of a file with one entry a line; raises `ConfigError` as `read_hostfile` does.

    Args:
        path: of the file
        parse: returns the hosts of one entry, and appends to a list of problems
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot read the hostfile: {reason}") from error
    hosts: list[HostSlots] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].strip()
        if entry:
            found: list[str] = []
            hosts += parse(entry, found)
            problems += [f"{path}:{number}: {problem}" for problem in found]
    if not hosts and not problems:
        problems.append(f"{path}: names no host; give one per line, as `host`, `host:4` or `host slots=4`")
    if problems:
        raise ConfigError(problems)
    return _merged(hosts)


def parse_entry(entry: str, problems: list[str]) -> list[HostSlots]:
    """Return the hosts of one entry, such as `host:4` or `host slots=4`; append to `problems`."""
    match = _SLOTS.fullmatch(entry.strip())
    assert match is not None
    expression, colon, keyword = match.groups()
    words = colon if colon is not None else keyword
    slots = None
    if words is not None:
        word = words.strip()
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= MOST_HOSTS):
            problems.append(f"{entry!r}: {word!r} is not a number of slots; give a whole number from 1")
            return []
        slots = int(word)
    names, found = _expand(expression)
    problems += found
    return [HostSlots(name=name, slots=slots) for name in names]


def _merged(hosts: list[HostSlots]) -> tuple[HostSlots, ...]:
    """Return each host once, in order of first mention; repeated mentions add up, with a default of one slot."""
    slots: dict[str, int | None] = {}
    for host in hosts:
        slots[host.name] = (slots[host.name] or 1) + (host.slots or 1) if host.name in slots else host.slots
    return tuple(HostSlots(name=name, slots=count) for name, count in slots.items())


def _elements(text: str, problems: list[str]) -> Iterator[str]:
    """Return the parts between commas outside brackets."""
    rest = text.strip()
    if not rest:
        problems.append(f"no host is named; legal are {LEGAL}")
    while rest:
        match = _ELEMENT.match(rest)
        end = match.end() if match else 0
        if match is None or (end < len(rest) and rest[end] != ","):
            problems.append(f"{text!r}: brackets or commas do not match at {rest[end:]!r}; legal are {LEGAL}")
            return
        yield match[0]
        if end == len(rest) - 1:
            problems.append(f"{text!r}: a host is missing after the last comma; legal are {LEGAL}")
        rest = rest[end + 1 :]


def _expand(expression: str) -> tuple[list[str], list[str]]:
    names: list[str] = []
    problems: list[str] = []
    for element in _elements(expression, problems):
        parts = re.split(r"\[([^\[\]]*)\]", element.strip())
        choices = [
            [part] if i % 2 == 0 else _numbers(part, element, problems) for i, part in enumerate(parts)
        ]
        if len(names) + math.prod(len(choice) for choice in choices) > MOST_HOSTS:
            problems.append(f"{element!r}: more than {MOST_HOSTS} hosts; check the range")
            continue
        made = ["".join(combination) for combination in product(*choices)]
        wrong = next((name for name in made if not _NAME.fullmatch(name)), None)
        if wrong is not None:
            problems.append(
                f"{element!r}: {wrong!r} is not a host name (letters, digits, '.', '-', '_'); legal are {LEGAL}"
            )
            continue
        names += made
    return names, problems


def _numbers(ranges: str, element: str, problems: list[str]) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            problems.append(f"{element!r}: {part!r} is not a number or a range such as 01-08")
            continue
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            problems.append(f"{element!r}: the range {part} runs backwards; write {last}-{first}")
        elif int(last) - int(first) >= MOST_HOSTS:
            problems.append(f"{element!r}: more than {MOST_HOSTS} hosts; check the range")
        else:
            numbers += [f"{n:0{len(first)}d}" for n in range(int(first), int(last) + 1)]
    return numbers


def _folded(prefix: str, suffix: str, numbers: list[str]) -> str:
    if len(numbers) < 2:
        return prefix + "".join(numbers) + suffix
    spans: list[list[str]] = []
    for number in numbers:
        # The next number of a range is the one that `expand` would write there.
        if spans and number == f"{int(spans[-1][-1]) + 1:0{len(spans[-1][0])}d}":
            spans[-1].append(number)
        else:
            spans.append([number])
    inside = ",".join(span[0] if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
    return f"{prefix}[{inside}]{suffix}"
