"""Lists of hosts as users write them: bracket expressions, `-H a:2,b`, and hostfiles.

`node[01-08,12],alpha` is the notation of Slurm, with zeros kept and several brackets per name. `fold` writes it and
`expand` reads it; one inverts the other, order and repetitions included. A hostfile has one entry a line, `host`,
`host:4` or `host slots=4`. One grammar reads those of Open MPI 4 and 5, MPICH, Intel MPI and MVAPICH; words without a
meaning here are refused by name. A host named twice has the slots of both. The existence of a host is not checked.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from nws.base.errors import ConfigError

#: Most hosts in one expression; more are taken for a typing error.
MOST_HOSTS = 100_000

#: Bytes of the longest hostfile.
_LONGEST_FILE = 16 << 20

LEGAL = "alpha, node[01-08], node[1-4,7], each followed by :SLOTS if it has several, separated by commas"

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)
_ELEMENT = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.ASCII | re.DOTALL)
#: `user@hosts:slots words`; the rest of an entry is a list of `word=value`.
_ENTRY = re.compile(
    r"(?:(?P<user>[^\s@:\[\]]+)@)?(?P<hosts>(?:[^\s:\[\]]|\[[^\[\]]*\])+)(?P<colons>(?::\S*)?)(?P<words>(?:\s.*)?)",
    re.DOTALL,
)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?", re.ASCII)
_IPV6 = re.compile(r"(?i)\[[0-9a-f.]*:[0-9a-f:.]*\]|(?=\S*::|(\S*:){3})[0-9a-f:.]+(%\w+)?(?=\s|$)")
_RANK_LINE = re.compile(r"rank\s+\d+\s*=")
_ASSIGNMENT = re.compile(r"\s*=\s*")
_COMMENT = re.compile(r"#[^\n]*|(?:^|(?<=\s))//[^\n]*|/\*.*?\*/", re.DOTALL)
_SLOT_WORDS = {"slots", "slot", "cpus", "cpu", "count"}
_BOUND_WORDS = {f"{unit}{dash}max" for unit in ("slots", "slot", "cpus", "cpu", "count") for dash in "-_"} | {
    f"max{dash}{unit}" for unit in ("slots", "slot", "cpus", "cpu") for dash in "-_"
}
_LEGAL_WORDS = "legal are slots=4, max_slots=4 and user=NAME"
_USER_WORDS = {"user", "username", "user-name", "user_name"}
_IN_SSH = "write it into ~/.ssh/config"
_BINDING = "this package binds no ranks by a hostfile; leave it out"
#: First characters of entries that have no meaning here.
_FIRST = {
    "+": "hosts relative to an allocation (+n0, +e2) are Open MPI's; name the host",
    "^": "a host to be left out (^host) is Open MPI's; use --exclude",
    "-": "options of mpiexec are of MPICH's and Intel MPI's -configfile; give a hostfile",
}
#: Entries that these begin; of options, a name with slots (`-x slots=1`) is none.
_OF_OTHERS = re.compile(r"[+^]|-\S+\s+[^=\s]+(?!\S)")
#: Words of hostfiles that have no meaning here → whose they are, and what to do instead.
_OTHERS = {
    "binding": ("MPICH and Intel MPI", _BINDING),
    "bind": ("MPICH", _BINDING),
    **dict.fromkeys(
        ("topology", "boards", "sockets", "sockets_per_board", "cores", "cores_per_socket", "slot_list"),
        ("Open MPI", _BINDING),
    ),
    "port": ("Open MPI 5", _IN_SSH),
    "ifname": ("MPICH", "name the interface with --mpi-args"),
    "schedule": ("LAM/MPI", "leave hosts out that must not compute"),
    "prefix": ("LAM/MPI", _IN_SSH),
    "np": ("PBS's server", "write slots=4"),
    "hca": ("MVAPICH", "the MPI library chooses the adapter; leave it out"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSlots:
    """A host the user named. slots : None if not given.  user : login name for ssh, None for that of its settings"""

    name: str
    slots: int | None = None
    user: str | None = None

    @property
    def address(self) -> str | None:
        """Return the destination for ssh if it differs from the name."""
        return None if self.user is None else f"{self.user}@{self.name}"


def expand(expression: str) -> tuple[str, ...]:
    """Return host names in the order of the expression; raises `ConfigError` with every problem.

    >>> expand("node[08-10],alpha")
    ('node08', 'node09', 'node10', 'alpha')
    """
    names, problems = _expand(expression)
    if problems:
        raise ConfigError(problems)
    return tuple(names)


def fold(names: Iterable[str], *, suffixes: bool = True) -> str:
    """Return the shortest bracket expression that keeps the order; `expand(fold(names)) == tuple(names)`.

    suffixes : text may follow a bracket; Slurm's commands refuse `n[1-2]-ib` and `c[1-2].cluster`

    >>> fold(["node08", "node09", "node10", "alpha"])
    'node[08-10],alpha'
    """
    runs: list[tuple[str, str, list[str]]] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, number, suffix = match.groups() if match else (name, "", "")
        if (suffixes or not suffix) and runs and number and runs[-1][2] and runs[-1][:2] == (prefix, suffix):
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
    # A comment over several lines leaves the line ends, so that the numbers of lines stay.
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), _hostfile_text(path))
    hosts: list[HostSlots] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if entry := line.strip():
            of_line: list[str] = []
            hosts += parse(entry, of_line)
            problems += [f"{path}:{number}: {problem}" for problem in of_line]
    if not hosts and not problems:
        problems.append(f"{path}: names no host; give one per line, as `host`, `host:4` or `host slots=4`")
    if problems:
        raise ConfigError(problems)
    return _merged(hosts)


def _hostfile_text(path: Path) -> str:
    try:
        # Opening a named pipe without a writer would wait for ever.
        if path.exists() and not path.is_file():
            reason = "it is no regular file"
        elif path.stat().st_size > _LONGEST_FILE:
            reason = f"it is longer than {_LONGEST_FILE >> 20} MiB"
        else:
            return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = str(error.strerror)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise ConfigError(f"{path}: cannot read the hostfile: {reason}")


def parse_entry(entry: str, problems: list[str]) -> list[HostSlots]:
    """Return the hosts of one entry, such as `host:4` or `ann@host slots=4 max_slots=8`; append to `problems`."""
    entry = entry.strip()
    match = _ENTRY.fullmatch(entry)
    if match is None or _OF_OTHERS.match(entry) or _RANK_LINE.match(entry) or _IPV6.match(entry):
        problems.append(f"{entry!r}: {_no_entry(entry)}")
        return []
    values, of_words = _words(match["words"])
    of_words += _colons(match["colons"], values)
    if match["user"] is not None:
        values.setdefault("user", match["user"])
    slots, user = _slots(values, of_words), values.get("user")
    if user is not None and not _USER.fullmatch(user):
        of_words.append(f"{user!r} is not a user's name")
    problems += [f"{entry!r}: {problem}" for problem in of_words]
    names, of_names = _expand(match["hosts"])
    problems += of_names
    return [] if of_words else [HostSlots(name=name, slots=slots, user=user) for name in names]


def _no_entry(entry: str) -> str:
    """Return why a text is no entry of a hostfile."""
    if _OF_OTHERS.match(entry):
        return _FIRST[entry[:1]]
    if _IPV6.match(entry):
        return "an IPv6 address is no host's name; give it as `address` in a grid file, or in ~/.ssh/config"
    if _RANK_LINE.match(entry):
        return "a line of a rank file of Open MPI; the ranks of hosts are planned, so give a hostfile"
    return f"brackets do not match; legal are {LEGAL}"


def _words(text: str) -> tuple[dict[str, str], list[str]]:
    """Return slots, bound and user of the words after a host, and the problems of the others."""
    values: dict[str, str] = {}
    problems = []
    for word in _ASSIGNMENT.sub("=", text).split():
        name, _, value = word.partition("=")
        kinds = {"slots": _SLOT_WORDS, "bound": _BOUND_WORDS, "user": _USER_WORDS}
        kind = next((kind for kind, names in kinds.items() if name.lower() in names), None)
        if kind is not None and not value:
            problems.append(f"{name!r} has no value; {_LEGAL_WORDS}")
        elif kind is None:
            other = ("Grid Engine and LSF", f"write slots={word}") if word.isdigit() else (None, _LEGAL_WORDS)
            family, remedy = _OTHERS.get(name.lower().replace("-", "_"), other)
            problems.append(f"{name!r} is {f'of {family}' if family else 'not known here'}; {remedy}")
        elif kind in values:
            problems.append(f"{name!r} repeats what stands before it; keep one")
        else:
            values[kind] = value
    return values, problems


def _colons(text: str, values: dict[str, str]) -> list[str]:
    """Take slots from `:SLOTS`, unless it says "all of the host"; return the problems."""
    if not text:
        return []
    slots, _, more = text[1:].partition(":")
    if "," in slots:
        return ["several hosts with slots in a line; give each a line"]
    if more:
        return [f"{more!r} after the slots is an adapter, as MVAPICH's mpirun_rsh takes it; leave it out"]
    if "slots" in values:
        return [f"slots are given twice, ':{slots}' and 'slots={values['slots']}'; keep one"]
    values["slots"] = slots
    return []


def _slots(values: Mapping[str, str], problems: list[str]) -> int | None:
    """Return the number of slots: as given, at most the bound; None for all of the host."""
    numbers = {}
    for kind in ("slots", "bound"):
        word = values.get(kind)
        if word is None or (kind == "slots" and word in ("*", "auto")):
            continue
        if not (word.isascii() and word.isdigit() and len(word) < 10 and 1 <= int(word) <= MOST_HOSTS):
            problems.append(f"{word!r} is not a number of slots; give a whole number from 1")
            return None
        numbers[kind] = int(word)
    slots, bound = numbers.get("slots"), numbers.get("bound")
    if slots is not None and bound is not None and bound < slots:
        problems.append(f"max_slots={bound} is less than slots={slots}; the first is the bound of the second")
    return bound if slots is None else slots


def _merged(hosts: list[HostSlots]) -> tuple[HostSlots, ...]:
    """Return each host once, in order of first mention; repeated mentions add up, with a default of one slot."""
    merged: dict[str, HostSlots] = {}
    for host in hosts:
        before = merged.get(host.name)
        if before is not None:
            slots = (before.slots or 1) + (host.slots or 1)
            host = replace(host, slots=slots, user=before.user or host.user)
        merged[host.name] = host
    return tuple(merged.values())


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
