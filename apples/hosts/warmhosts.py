"""Hosts on which kernels have been compiled, stored on disk: compiling takes long with a cold cache.

The file follows the rules of `apples.model.jsonstore`. A missing or wrong entry costs one look at a warm cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from apples.errors import HistoryError
from apples.hosts.conversation import together
from apples.model import jsonstore
from apples.model.jsonstore import Format
from apples.model.launchrequest import Notify
from nws.base.hostlist import fold


class _Document(Struct):
    """The content of the file."""

    hosts: list[str]


FORMAT = Format(
    name="apples-warm-hosts",
    version=1,
    lost="kernels are looked after once more on each host",
    content=_Document,
    what="list of hosts",
)

#: Of more the oldest are forgotten.
MOST = 4096


class WarmHosts:
    """The hosts of one file, each as a text of host, machine and application."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`, which the first host creates."""
        self._path = path

    def known(self, notify: Notify) -> list[str]:
        """Return all hosts, the oldest first. `notify` gets the reason if the file cannot be used."""
        document = jsonstore.read(self._path, FORMAT, notify)
        return [] if document is None else document.hosts

    def add(self, texts: Iterable[str], notify: Notify) -> None:
        """Add hosts. `notify` gets the reason if they cannot be kept."""
        # Read again: another run may have added hosts while these compiled.
        hosts = list(dict.fromkeys([*self.known(lambda problem: None), *texts]))[-MOST:]
        try:
            jsonstore.write(self._path, FORMAT, _Document(hosts=hosts))
        except HistoryError as error:
            notify(f"hosts with compiled kernels are not kept: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The command that compiles an application's kernels, and the hosts where it has run."""

    command: tuple[str, ...]
    warm: WarmHosts

    def look_after(
        self,
        machines: Mapping[str, str],
        compile_on: Callable[[str], str | None],
        notify: Notify,
    ) -> dict[str, str]:
        """Compile the kernels on every new host, on all at once; return the hosts where that failed, with the reasons.

        Otherwise all ranks would compile at their start, and benchmarks would count it.

        Args:
            machines: host → the properties of it on which kernels depend
            compile_on: runs the command there; returns None, or why it failed
        """
        if not self.command:
            return {}
        known = set(self.warm.known(notify))
        # With the machine: a host of this name may be another one after a reinstallation.
        texts = {host: f"{host} {machine} {' '.join(self.command)}" for host, machine in machines.items()}
        new = [host for host, text in texts.items() if text not in known]
        if not new:
            return {}
        notify(f"looking after compiled kernels on {fold(new)} (once)")
        failed = {host: why for host, why in zip(new, together(compile_on, new), strict=True) if why}
        self.warm.add((texts[host] for host in new if host not in failed), notify)
        return failed
