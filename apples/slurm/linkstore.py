"""Measured links between nodes, stored on disk: a cluster's network rarely changes.

The file follows the rules of `apples.model.jsonstore`. A missing link is measured in the next allocation.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from apples.hosts.speed import LinkSpeed
from apples.model import jsonstore
from apples.model.jsonstore import BadDocument, Format

FORMAT = Format(name="apples-slurm-links", version=1, lost="links among nodes are measured once more")

#: Stored fields of a link.
FIELDS = ("source", "target", "latency_s", "bandwidth_Bps")

#: The most links in a file. Older ones are dropped.
MOST = 20_000


class LinkStore:
    """The links of one cluster, in one file.

    cluster : its name, because nodes of two clusters may have the same names
    """

    def __init__(self, path: Path, cluster: str) -> None:
        """Use the file at `path`, which the first link creates."""
        self._path, self._cluster = path, cluster

    def among(self, hosts: Sequence[str]) -> list[LinkSpeed]:
        """Return the links with both ends in `hosts`; raises `HistoryError` if the file cannot be used."""
        wanted = set(hosts)
        return [link for link in self._all() if link.source in wanted and link.target in wanted]

    def missing(self, hosts: Sequence[str]) -> list[str]:
        """Return the hosts that have an unknown link to another, in the order of the argument."""
        known = {(link.source, link.target) for link in self._all()}
        return [a for a in hosts if any(b != a and not {(a, b), (b, a)} <= known for b in hosts)]

    def add(self, links: Iterable[LinkSpeed]) -> None:
        """Store the links that could be measured; raises `HistoryError`."""
        measured = [link for link in links if link.latency_s is not None and link.bandwidth_Bps is not None]
        latest = {(link.source, link.target): link for link in [*self._all(), *measured]}
        entries = [entry for entry in self._read() if entry["cluster"] != self._cluster]
        for link in latest.values():
            entries.append({"cluster": self._cluster, **{field: getattr(link, field) for field in FIELDS}})
        jsonstore.write(self._path, FORMAT, {"links": entries[-MOST:]})

    def _all(self) -> list[LinkSpeed]:
        found = [entry for entry in self._read() if entry["cluster"] == self._cluster]
        return [LinkSpeed(**{field: entry[field] for field in FIELDS}) for entry in found]

    def _read(self) -> list[dict[str, Any]]:
        return [entry for links in jsonstore.read_all([self._path], FORMAT, _decode) for entry in links]


def _decode(document: dict[str, Any]) -> list[dict[str, Any]]:
    links = document.get("links")
    keys = {"cluster", *FIELDS}
    if not isinstance(links, list) or not all(
        isinstance(link, dict) and keys <= link.keys() for link in links
    ):
        raise BadDocument("has no list of links; remove it")
    return links
