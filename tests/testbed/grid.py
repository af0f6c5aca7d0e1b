"""A testbed as a whole: brought up, changed while it runs, and taken down so that nothing is left.

What is up is kept in the testbed's directory, so that another process can go on with it; what lives in it is known
by its control groups alone. `up` and `down` may be called again and again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from . import host as hosts
from .description import READERS, HostSpec, SiteSpec, Spec
from .errors import TestbedError
from .limits import Groups
from .network import Network
from .running import missing

End = TypeVar("End", HostSpec, SiteSpec)

CORE = "core"
WARDEN = Path(__file__).with_name("warden.py")


class Testbed:
    """A grid of hosts; a context manager that brings it up and takes it down, even when its process is killed."""

    __test__ = False

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.directory = directory_of(spec.name)
        self.groups = Groups(spec.name)
        self._children: list[subprocess.Popen[bytes]] = []
        self._warden: subprocess.Popen[bytes] | None = None
        self._state: dict[str, Any] = {"core": 0, "hosts": {}, "relays": {}, "changed": {}}
        file = self.directory / "state.json"
        if file.exists():
            self._state = json.loads(file.read_text())

    def __enter__(self) -> Self:
        """Up, with a warden that takes it down when this process is gone."""
        command = [sys.executable, str(WARDEN), self.spec.name]
        self._warden = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Down."""
        self.down()
        if self._warden is not None and self._warden.stdin is not None:
            self._warden.stdin.close()
            self._warden.wait()

    def up(self) -> None:
        """Bring up what is not up yet; raises `TestbedError`."""
        why = missing()
        if why:
            raise TestbedError(why)
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        hosts.make_keys(self.spec.hosts, self.directory)
        if not self.groups.processes(CORE):
            self._start_core()
        for one in self.spec.hosts:
            self.start(one.name)

    def down(self) -> None:
        """Take everything down; also what an earlier process has left."""
        take_down(self.spec.name)
        for child in self._children:
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        self._children.clear()
        self._state = {"core": 0, "hosts": {}, "relays": {}, "changed": {}}

    def start(self, name: str) -> None:
        """Power on a host that is off."""
        spec = self.host(name)
        if self.is_up(name):
            return
        self.groups.make(name)
        self.network.detach(spec)
        hosts.prepare(spec, self.spec.hosts, self.directory)
        process, inside = hosts.boot(spec, self.directory, self.groups)
        self._children.append(process)
        self._state["hosts"][name] = inside
        self.network.attach(spec, inside, self._site(spec.site))
        # booting is not what is measured, so the limits come last
        self.groups.apply(spec)
        self._save()

    def crash(self, name: str) -> None:
        """Power failure: the link goes first, so that nobody hears of it."""
        self.network.detach(self.host(name))
        self.kill(name)

    def kill(self, name: str) -> None:
        """End every process of a host; its kernel still says goodbye to its peers."""
        self.host(name)
        self.groups.kill(name)
        self._state["hosts"].pop(name, None)
        self._save()

    def freeze(self, name: str) -> None:
        """Stop every process of a host where it stands."""
        self.host(name)
        self.groups.freeze(name, True)

    def thaw(self, name: str) -> None:
        """Let a frozen host go on."""
        self.host(name)
        self.groups.freeze(name, False)

    def cut(self, name: str) -> None:
        """Cut the link of a host, or the uplink of a site: packets are lost without a word."""
        self.network.switch(self._end(name), False)

    def mend(self, name: str) -> None:
        """Mend what was cut."""
        self.network.switch(self._end(name), True)

    def change(self, name: str, **values: object) -> None:
        """Change cpu, memory, rate or delay of a host (the latter two of a site) while it runs, as in the file."""
        legal = (*(("cpu", "memory") if self._is_host(name) else ()), "rate", "delay", "loss")
        wrong = sorted(values.keys() - set(legal))
        if wrong:
            raise TestbedError(f"{name}: cannot change {', '.join(wrong)}; legal are {', '.join(legal)}")
        try:
            for key, value in values.items():
                READERS[key][1](value)
        except (TypeError, ValueError) as error:
            raise TestbedError(f"{name}: {error}") from error
        self._state["changed"].setdefault(name, {}).update(values)
        self._save()
        end = self._end(name)
        if isinstance(end, HostSpec) and values.keys() & {"cpu", "memory"}:
            self.groups.apply(end)
        if "rate" in values:
            near = self._state["hosts"][name] if isinstance(end, HostSpec) else self._state["core"]
            self.network.set_rate(end, near)
        if values.keys() & {"delay", "loss"}:
            self.network.set_delay(end)

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` inside a host; raises `TestbedError` when it is off."""
        self.host(name)
        if not self.is_up(name):
            raise TestbedError(f"host {name} is off; start it")
        return hosts.entering(self._state["hosts"][name], self.groups, name, list(command))

    def script(self, name: str, text: str, output: Path) -> None:
        """Run a shell script that may leave daemons inside a host; raises `TestbedError` if it fails.

        output : a file, because a daemon that inherits a pipe would keep this process waiting
        """
        with output.open("wb") as log:
            result = subprocess.run(
                self.command(name, ["sh", "-ec", text]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )
        if result.returncode != 0:
            raise TestbedError(f"{name}: {text}: {output.read_text().strip()}")

    def run(self, name: str, *command: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command inside a host to its end."""
        return subprocess.run(
            self.command(name, command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def processes(self, name: str) -> dict[int, str]:
        """Everything that runs in a host: pid as the machine sees it → command line."""
        found = {}
        for pid in self.groups.processes(name):
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
        return found

    def is_up(self, name: str) -> bool:
        """Whether a host is on."""
        return self._state["hosts"].get(name, 0) in self.groups.processes(name)

    def host(self, name: str) -> HostSpec:
        """A host as it is now; raises `TestbedError` for an unknown one."""
        return _changed(self.spec.host(name), self._state["changed"].get(name, {}))

    @property
    def network(self) -> Network:
        """The links."""
        entering = self.groups.entering(CORE)
        return Network(self._state["core"], self.directory, entering, self._state["relays"])

    def _start_core(self) -> None:
        self.groups.make(CORE)
        process = subprocess.Popen(
            [
                "sh",
                "-c",
                f"{self.groups.entering(CORE)} exec unshare --net sh -c 'echo up; exec sleep infinity'",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        assert process.stdout is not None
        process.stdout.readline()
        self._children.append(process)
        self._state |= {"core": process.pid, "hosts": {}, "relays": {}}
        self.network.build(self.spec.sites)
        self._save()

    def _is_host(self, name: str) -> bool:
        return any(host.name == name for host in self.spec.hosts)

    def _site(self, name: str) -> SiteSpec:
        return next(site for site in self.spec.sites if site.name == name)

    def _end(self, name: str) -> HostSpec | SiteSpec:
        """A host or a site, as it is now."""
        if self._is_host(name):
            return self.host(name)
        for site in self.spec.sites:
            if site.name == name and len(self.spec.sites) > 1:
                return _changed(site, self._state["changed"].get(name, {}))
        names = [h.name for h in self.spec.hosts] + [s.name for s in self.spec.sites] * (
            len(self.spec.sites) > 1
        )
        raise TestbedError(f"no host or site {name!r}; there are {', '.join(names)}")

    def _save(self) -> None:
        beside = self.directory / "state.new"
        beside.write_text(json.dumps(self._state))
        os.replace(beside, self.directory / "state.json")


def directory_of(name: str) -> Path:
    """Where a testbed keeps its keys, logs and state."""
    return Path(tempfile.gettempdir()) / f"testbed-{name}"


def take_down(name: str) -> None:
    """End what lives in a testbed and remove its groups and files; namespaces, links and mounts go with it."""
    groups = Groups(name)
    groups.kill()
    groups.remove()
    shutil.rmtree(directory_of(name), ignore_errors=True)


def _changed(spec: End, values: dict[str, Any]) -> End:
    return replace(spec, **{READERS[key][0]: READERS[key][1](value) for key, value in values.items()})
