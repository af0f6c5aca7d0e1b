"""Hosts on which kernels have been compiled already, kept on disk: compiling takes long where a cache is cold.

Written and read under the rules of `apples.model.jsonstore`. What is forgotten or wrong costs one more look at
a warm cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apples.model import jsonstore
from apples.model.hostlist import fold
from apples.model.jsonstore import BadDocument, Format
from apples.remote.preflight import together

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What compiles an application's kernels, and the hosts where that was done."""

    command: tuple[str, ...]
    warm: WarmHosts

    def look_after(
        self,
        machines: Mapping[str, str],
        compile_on: Callable[[str], str | None],
        notify: Callable[[str], None],
    ) -> dict[str, str]:
        """Have them compiled on every host that is new, on all at once; hosts where that failed, and why.

        Ranks would all compile at their start, and benchmarks would count it. Raises `HistoryError`.
        machines : host → what it is, as far as kernels depend on it.  compile_on : runs the command there; None, or
            why it failed
        """
        if not self.command:
            return {}
        known = set(self.warm.known())
        texts = {host: f"{host} {machine} {' '.join(self.command)}" for host, machine in machines.items()}
        new = [host for host, text in texts.items() if text not in known]
        if not new:
            return {}
        notify(f"looking after compiled kernels on {fold(new)} (once)")
        failed = {host: why for host, why in zip(new, together(compile_on, new), strict=True) if why}
        self.warm.add(texts[host] for host in new if host not in failed)
        return failed


def _decode(document: dict[str, Any]) -> list[str]:
    hosts = document.get("hosts")
    if not isinstance(hosts, list) or not all(isinstance(text, str) for text in hosts):
        raise BadDocument("has no list of hosts; remove it")
    return hosts
