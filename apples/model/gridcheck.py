"""Names in a grid file that clash or do not exist: checks that the schema of `apples.model.gridfile` cannot express.

Works on the document as written, so that these problems are reported together with wrong types and unknown keys. A
value that is no mapping, list or text is left to the schema.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from apples.errors import ConfigError
from nws.base.hostlist import expand
from nws.base.reader import Document, did_you_mean
from nws.base.yamltree import Location, Problem


def clashes(document: Document) -> list[Problem]:
    """Return empty pools, hosts named twice, sites named like hosts, links and benchmarks of unknown names."""
    return _Check(document).problems()


def addresses(text: str) -> list[str]:
    """Return the addresses of an entry: a bracket expression expanded, any other text unchanged.

    Raises `ConfigError`. An address may be an invalid host name (``user@alpha``, ``fe80::1``), but not a text that a
    command would take for an option.
    """
    if set("[],") & set(text):
        return list(expand(text))
    if not text or text.startswith("-") or any(c.isspace() for c in text):
        raise ConfigError(f"{text!r} is no address: it is empty, has a blank or begins with -")
    return [text]


class _Check:
    """A pass through one document that remembers the names it has seen, with their locations."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._hosts: dict[str, Location] = {}
        self._sites: dict[str, Location] = {}
        self._cpu_types: set[str] = set()

    def problems(self) -> list[Problem]:
        top = _mapping(self._document.value)
        found = list(self._pool(top))
        found += self._links(_mapping(top.get("links")))
        found += self._applications(_mapping(top.get("applications")))
        return found

    def _pool(self, top: Mapping[str, Any]) -> Iterator[Problem]:
        if top.get("hosts") == []:
            yield self._document.problem(
                ("hosts",), "no hosts; a grid needs one at least, such as - name: alpha"
            )
        for index, raw in enumerate(_sequence(top.get("hosts"))):
            at: Location = ("hosts", index)
            entry = _mapping(raw)
            self._cpu_types.add(str(entry.get("cpu_type", "default")))
            if isinstance(entry.get("site"), str):
                self._sites.setdefault(entry["site"], (*at, "site"))
            yield from self._names(entry, at)
        for site in self._sites.keys() & self._hosts.keys():
            line = self._document.tree.line(self._hosts[site])
            text = f"{site} is the name of a host as well (line {line}); give the site another name"
            yield self._document.problem(self._sites[site], text)

    def _names(self, entry: Mapping[str, Any], at: Location) -> Iterator[Problem]:
        names = yield from self._expanded(entry, (*at, "name"), expand)
        for name in names:
            if name in self._hosts:
                line = self._document.tree.line(self._hosts[name])
                text = f"host {name} stands in line {line} already; a host is listed once, its slots say how often"
                yield self._document.problem((*at, "name"), text)
            self._hosts.setdefault(name, (*at, "name"))
        reached = yield from self._expanded(entry, (*at, "address"), addresses)
        if reached and names and len(reached) != len(names):
            text = f"{len(reached)} addresses for {len(names)} hosts; write a bracket expression of as many"
            yield self._document.problem((*at, "address"), text)

    def _expanded(
        self, entry: Mapping[str, Any], at: Location, read: Callable[[str], Sequence[str]]
    ) -> Generator[Problem, None, Sequence[str]]:
        """Yield problems and return the names; none where there is a problem."""
        text = entry.get(str(at[-1]))
        if not isinstance(text, str):
            return []
        try:
            return read(text)
        except ConfigError as error:
            for problem in error.problems:
                yield self._document.problem(at, problem)
            return []

    def _links(self, links: Mapping[str, Any]) -> Iterator[Problem]:
        known = [*self._hosts, *self._sites]
        seen: dict[tuple[str, ...], Location] = {}
        for index, raw in enumerate(_sequence(links.get("between"))):
            at: Location = ("links", "between", index, "ends")
            ends = [end for end in _sequence(_mapping(raw).get("ends")) if isinstance(end, str)]
            for end in ends:
                if end not in known:
                    text = f"{end} is no host and no site of this grid{did_you_mean(end, known)}"
                    legal = ", ".join(self._sites) or "none"
                    yield self._document.problem(at, f"{text}; sites are {legal}, hosts are under hosts")
            if len(ends) == 2 and ends[0] == ends[1] and ends[0] in self._hosts:
                text = f"both ends are the host {ends[0]}; a link joins two hosts, or a site with itself"
                yield self._document.problem(at, text)
            one_way = _mapping(raw).get("one_way") is True
            pair = (*ends, "one way") if one_way else tuple(sorted(ends))
            if pair in seen:
                line = self._document.tree.line(seen[pair])
                yield self._document.problem(at, f"this pair stands in line {line} already; keep one")
            seen.setdefault(pair, at)

    def _applications(self, applications: Mapping[str, Any]) -> Iterator[Problem]:
        for name, raw in applications.items():
            for cpu_type in _mapping(_mapping(raw).get("seconds_per_row")):
                if cpu_type not in self._cpu_types:
                    legal = ", ".join(sorted(self._cpu_types)) or "none"
                    text = f"no host has this CPU type{did_you_mean(cpu_type, self._cpu_types)}; hosts have {legal}"
                    yield self._document.problem(("applications", name, "seconds_per_row", cpu_type), text)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
