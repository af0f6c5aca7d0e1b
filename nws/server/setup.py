"""The prepared server: all settings checked before anything is opened for writing or listens.

Tokens and certificate are read and the address is looked up. A server that other hosts could reach without a token
is refused.
"""

import ipaddress
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from nws.base.errors import ConfigError
from nws.base.oserrors import REASON, os_errors_as
from nws.base.paths import state_dir
from nws.base.wording import counted
from nws.server.tokens import Role, Tokens
from nws.service.serviceconfig import Listen, ServiceConfig, Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetup:
    """A server that may be started. address: looked up; store: file; warnings: for the user"""

    config: ServiceConfig
    tokens: Tokens
    tls: ssl.SSLContext | None
    family: socket.AddressFamily
    address: str
    store: Path
    warnings: tuple[str, ...]

    def url(self, port: int) -> str:
        """Return the server's address."""
        shown = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.tls else 'http'}://{shown}:{port}"

    def lines(self) -> list[str]:
        """Return a description of the server as lines of text."""
        config = self.config
        limits, keep = config.limits, config.keep
        cliques = (
            f"automatic, at most {config.clique_most} hosts each"
            if config.cliques is None
            else ", ".join(
                f"{name} ({counted(len(c.members), 'host')})" for name, c in config.cliques.items()
            )
            or "none"
        )
        roles = ", ".join(f"{len(some)} {role}" for role, some in self.tokens.digests.items() if some)
        return [
            f"grid:        {config.grid}",
            f"listens at:  {self.url(config.listen.port)}",
            f"tokens:      {roles or 'none: any program on this host has every role'}",
            f"TLS:         {config.tls.certificate if config.tls else 'no'}",
            f"store:       {self.store}{'' if self.store.exists() else ' (new)'}",
            f"keeps:       samples {_days(keep.samples_s)}, minutes {_days(keep.minutes_s)}, "
            f"ten minutes {_days(keep.ten_minutes_s)}",
            f"limits:      bodies {limits.body_bytes} B, {limits.requests_per_minute} requests a minute and "
            f"client, {limits.hosts} hosts, {limits.series_per_host} series a host",
            f"sensors:     CPU every {config.every.cpu_s:g} s, memory every {config.every.memory_s:g} s, "
            f"delivered every {config.every.deliver_s:g} s; lost after {config.lost_after_s:g} s",
            f"cliques:     {cliques}; frames of {config.frame_s:g} s",
            f"prometheus:  {', '.join(p.url for p in config.prometheus) or 'none'}",
            *(f"warning:     {w}" for w in self.warnings),
        ]


def prepare(config: ServiceConfig, *, store: Path | None = None) -> ServerSetup:
    """Return the checked settings; raises `ConfigError` with all problems.

    Args:
        store: file of the memory; takes precedence over the settings
    """
    problems: list[str] = []
    warnings: list[str] = []
    tokens, tls, family, address = Tokens.none(), None, socket.AF_INET, config.listen.host
    try:
        files = {
            Role.READ: config.tokens.read,
            Role.WRITE: config.tokens.write,
            Role.ADMIN: config.tokens.admin,
        }
        tokens = Tokens.load(files)
    except ConfigError as error:
        problems += error.problems
    try:
        tls = None if config.tls is None else tls_context(config.tls, warnings)
    except ConfigError as error:
        problems += error.problems
    try:
        family, address = resolve(config.listen)
    except ConfigError as error:
        problems += error.problems
    if not problems and not _is_loopback(address):
        if not tokens.required:
            problems.append(
                f"listen {config.listen}: reaches beyond this host, and no tokens are set: any client could write; "
                "make tokens with `nws token FILE`, name them under `tokens:` in the settings file (--config), "
                "or listen at 127.0.0.1"
            )
        elif tls is None:
            warnings.append(
                f"tokens travel unencrypted to {config.listen}; set `tls:` with a certificate and its key, "
                "or put a proxy with TLS in front"
            )
    if problems:
        raise ConfigError(problems)
    return ServerSetup(
        config=config,
        tokens=tokens,
        tls=tls,
        family=family,
        address=address,
        store=store or config.store or state_dir() / "service.db",
        warnings=tuple(warnings),
    )


def resolve(listen: Listen) -> tuple[socket.AddressFamily, str]:
    """Return family and address of a host name; raises `ConfigError`."""
    try:
        entries = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"listen {listen}: {listen.host!r} is no address of this host ({error}); such as 127.0.0.1:8090"
        ) from None
    # for a name with both families clients try IPv4 first
    family, _, _, _, where = min(entries, key=lambda entry: entry[0] != socket.AF_INET)
    return family, str(where[0])


def tls_context(files: Tls, warnings: list[str]) -> ssl.SSLContext:
    """Return a context with this certificate and key; raises `ConfigError`. Appends to `warnings`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for what, path in (("certificate", files.certificate), ("key", files.key)):
        with os_errors_as(ConfigError, f"tls.{what}: {path}: {REASON}; name a PEM file"):
            mode = path.stat().st_mode
        if what == "key" and mode & 0o007:
            warnings.append(
                f"{path}: mode {stat.S_IMODE(mode):04o} lets all users read the key; run: chmod o= {path}"
            )
    with os_errors_as(
        ConfigError,
        f"tls: {files.certificate} and {files.key}: {REASON}; expected a certificate "
        "(with its chain) and its key in PEM form, the key without a passphrase",
    ):
        # without a password function, a key with a passphrase would prompt on the terminal
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    return context


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _days(seconds: float) -> str:
    return f"{seconds / 86400:g} d"
