"""The state that a host should have, and the facts on which it depends. Both cross the connection as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from apples_deploy.units import Daemon, UnitPlace, filled, unit


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Facts of a host, from the agent. systemd : scope that this user may use, None without systemd."""

    root: bool
    home: str
    python: tuple[int, int]
    systemd: str | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> HostReport:
        """Return a checked report; raises `ValueError`."""
        return msgspec.convert(dict(document), cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The package to install. wheel : name of the file that is sent.  arguments : more arguments of pip

    variables : environment of pip and uv, for addresses with passwords, which other users must not see
    digest : of everything that determines the result
    """

    digest: str
    wheel: str
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLayout:
    """Directories of a deployment on one host. scope : of systemd, None without

    environments : where packages are installed, None for an installation that is there.  bin : programs
    settings, state : files of this host alone
    """

    host: str
    scope: str | None
    environments: str | None
    bin: str
    settings: str
    state: str
    home: str

    @classmethod
    def of(
        cls, host: str, report: HostReport, *, prefix: str | None, installed: str | None, systemd: bool
    ) -> HostLayout:
        """Return the layout. prefix : may contain ~ and {host}.  installed : environment that is there, else None."""
        usual = "/opt/apples-grid" if report.root else "~/.local/share/apples-grid"
        root = (prefix or usual).replace("{host}", host)
        if root == "~" or root.startswith("~/"):
            root = report.home + root[1:]
        return cls(
            host=host,
            scope=report.systemd if systemd else None,
            environments=None if installed else root,
            bin=f"{installed or f'{root}/current'}/bin",
            # a prefix on a shared file system serves several hosts
            settings=f"{root}/hosts/{host}/settings",
            state=f"{root}/hosts/{host}/state",
            home=report.home,
        )

    def path(self, daemon: Daemon, name: str) -> str:
        """Return the path of a file of a daemon; files of two daemons may have the same name."""
        return f"{self.settings}/{daemon.name}/{name}"

    def state_of(self, daemon: Daemon) -> str:
        """Return the directory of a daemon's data, where systemd doesn't choose it."""
        return f"{self.home}/.local/state/apples" if daemon.usual_state else self.state

    @property
    def units(self) -> str:
        """Return the directory of unit files."""
        return "/etc/systemd/system" if self.scope == "system" else f"{self.home}/.config/systemd/user"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file of settings, a token or a key."""

    path: str
    text: str
    mode: int = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedService:
    """A daemon as the agent starts it: by its unit, or with `--detach`. digest : of all that a restart brings in"""

    name: str
    command: tuple[str, ...]
    unit: str | None
    scope: str | None
    state: str
    record: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """The state of one host."""

    host: str
    layout: HostLayout
    package: Package | None
    files: tuple[SettingsFile, ...] = ()
    services: tuple[ManagedService, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonRole:
    """A daemon on a host: its words, in which ``{name}`` is the path of a file, and its files by name."""

    daemon: Daemon
    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def host_plan(layout: HostLayout, package: Package | None, roles: tuple[DaemonRole, ...]) -> HostPlan:
    """Return the plan of a host with these daemons."""
    files: list[SettingsFile] = []
    services = []
    for role in roles:
        paths = {name: layout.path(role.daemon, name) for name in role.files}
        own = [SettingsFile(path=paths[name], text=text) for name, text in role.files.items()]
        if layout.scope is not None:
            place = UnitPlace(
                scope=layout.scope,
                bin=layout.bin,
                state=None if layout.scope == "system" else layout.state_of(role.daemon),
                files=paths,
            )
            path = f"{layout.units}/{role.daemon.name}.service"
            own.append(SettingsFile(path=path, text=unit(role.daemon, place, role.words), mode=0o644))
        services.append(_service(role, layout, package, own, paths))
        files += own
    return HostPlan(
        host=layout.host,
        layout=layout,
        package=package,
        files=tuple(files),
        services=tuple(services),
    )


def _service(
    role: DaemonRole,
    layout: HostLayout,
    package: Package | None,
    files: list[SettingsFile],
    paths: Mapping[str, str],
) -> ManagedService:
    words = filled(role.words, paths)
    command = (f"{layout.bin}/{role.daemon.program}", *words)
    parts = [*command, "" if package is None else package.digest, *(f"{f.path}\n{f.text}" for f in files)]
    return ManagedService(
        name=role.daemon.name,
        command=command,
        unit=None if layout.scope is None else f"{layout.units}/{role.daemon.name}.service",
        scope=layout.scope,
        state=layout.state_of(role.daemon),
        record=layout.path(role.daemon, "started"),
        digest=hashlib.sha256("\0".join(parts).encode()).hexdigest(),
    )
