"""The address at which this host answers probes and from which it sends them: the one that MPI would use.

The user's address or interface is used if given. Else it is the address of the host's own name, as launchers pass it to
the ranks, if it is an address of this machine and not the loopback; else the source address of packets to the server.
The loopback is used only when the server itself is reached through it. Sends no packet.
"""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from nws.base.errors import ProbeError, UsageError


def choose_address(stated: str | None, server_url: str) -> str:
    """Return the numeric address; `stated` is an address or interface of this machine, or None.

    Raises `UsageError` when this machine has no such address or interface, `ProbeError` when the server's name
    cannot be resolved now, or only the loopback is left and the server is elsewhere.
    """
    if stated is not None:
        return _named(stated)
    for address in _addresses(socket.gethostname()):
        if not is_loopback(address) and is_local(address):
            return address
    return _towards(server_url)


def is_loopback(address: str) -> bool:
    """Return whether a numeric address reaches this machine only."""
    return bool(ipaddress.ip_address(address).is_loopback)


def is_local(address: str) -> bool:
    """Return whether this machine has that numeric address now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _named(stated: str) -> str:
    try:
        address = str(ipaddress.ip_address(stated))
    except ValueError:
        return _of_interface(stated)
    if not is_local(address) or ipaddress.ip_address(address).is_unspecified:
        raise UsageError(f"--address {stated}: this machine has no such address; it has {_overview()}")
    return address


def _of_interface(name: str) -> str:
    """Return the first address of an interface, IPv4 before IPv6.

    An address of the link alone is of no use to others.
    """
    addresses = _interfaces().get(name)
    if addresses is None:
        raise UsageError(
            f"--address {name}: no address and no interface of this machine is called that; it has {_overview()}"
        )
    usable = [a for a in addresses if not ipaddress.ip_address(a).is_link_local]
    if not usable:
        raise UsageError(f"--address {name}: the interface has no address now; bring it up, or name another")
    return usable[0]


def _interfaces() -> dict[str, list[str]]:
    import psutil

    by_name = {}
    for name, addresses in psutil.net_if_addrs().items():
        numeric = [a for a in addresses if a.family in (socket.AF_INET, socket.AF_INET6)]
        numeric.sort(key=lambda a: a.family != socket.AF_INET)
        by_name[name] = [a.address.partition("%")[0] for a in numeric]
    return by_name


def _overview() -> str:
    return ", ".join(f"{name} {' '.join(a) or '(none)'}" for name, a in sorted(_interfaces().items()))


def _addresses(host: str) -> Sequence[str]:
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in entries]


def _towards(server_url: str) -> str:
    """Return address that a connection to the server would have here."""
    parts = urlsplit(server_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        raise ProbeError(
            f"{host}: the server's address could not be looked up ({error}), and so not the one this host has "
            "towards it; name one (--address)"
        ) from error
    why: OSError | None = None
    for family, kind, protocol, _, sockaddr in entries:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # connecting a datagram socket sends nothing
                probe.connect(sockaddr)
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError as error:
            why = error
    raise ProbeError(
        f"{host}: no route to the server ({why}), and so no address this host has towards it; name one (--address)"
    )
