"""Hosts on which kernels have been compiled already, kept on disk: compiling takes long where a cache is cold.

Written and read under the rules of `apples.jsonstore`. What is forgotten or wrong costs one more look at a warm cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apples import jsonstore
from apples.jsonstore import BadDocument, Format

FORMAT = Format(name="apples-warm-hosts", version=1, lost="kernels are looked after once more on each host")

#: Of more the oldest are forgotten.
MOST = 4096


class WarmHosts:
    """The hosts of one file, each as a text of host, machine and application."""

    def __init__(self, path: Path) -> None:
        """path : made with the first host."""
        self._path = path

    def known(self) -> list[str]:
        """All of them, the oldest first; raises `HistoryError` where the file cannot be used."""
        return [text for texts in jsonstore.read_all([self._path], FORMAT, _decode) for text in texts]

    def add(self, texts: Iterable[str]) -> None:
        """Keep some more; raises `HistoryError`."""
        jsonstore.write(self._path, FORMAT, {"hosts": list(dict.fromkeys([*self.known(), *texts]))[-MOST:]})


def _decode(document: dict[str, Any]) -> list[str]:
    hosts = document.get("hosts")
    if not isinstance(hosts, list) or not all(isinstance(text, str) for text in hosts):
        raise BadDocument("has no list of hosts; remove it")
    return hosts
