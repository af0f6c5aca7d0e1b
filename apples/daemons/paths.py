"""Files of the daemons: sockets, their directories and the key.

`$APPLES_NODE_SOCKET` has precedence. A user's own node manager uses ``$XDG_RUNTIME_DIR/apples-UID`` (or the same below
/tmp), which is closed to other users. One that root runs for all users has ``/run/apples``.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from apples.daemons.ipc.wire import node_key
from apples.errors import ConfigError, SharingError
from apples.hosts import nodesockets
from apples.monitoring.names import check_job
from nws.base.errors import UsageError
from nws.base.files import write_whole
from nws.base.oserrors import REASON, os_errors_as
from nws.base.paths import local_host
from nws.client.endpoint import read_secret

SOCKET_VARIABLE = "APPLES_NODE_SOCKET"
SYSTEM_DIRECTORY = Path(nodesockets.SYSTEM_DIRECTORY)

#: What the kernel takes as the path of a socket, less the byte that ends it.
_LONGEST = 107

#: Characters that a key has at least: 128 bits in hexadecimal digits.
_SHORTEST = 32
#: Begin of a key file for one node, before its name; bytes of the key after that.
_NODE_KEY, _NODE_KEY_BYTES = b"node:", 32


def user_directory() -> Path:
    """Return the directory for this user's daemons, which may not exist."""
    return Path(nodesockets.user_directory(os.environ))


def serving_socket(name: str, given: Path | None = None) -> Path:
    """Return the socket of a node manager of this user; raises `ConfigError` for an illegal path."""
    named = os.environ.get(SOCKET_VARIABLE)
    path = given or (Path(named) if named else None)
    if path is None:
        directory = (
            SYSTEM_DIRECTORY
            if os.getuid() == 0 and not os.environ.get("XDG_RUNTIME_DIR")
            else user_directory()
        )
        path = directory / f"node-{name}.sock"
    # The daemon may change its directory.
    path = path.absolute()
    if len(os.fsencode(path)) > _LONGEST:
        raise ConfigError(
            f"{path}: longer than a socket's path may be ({_LONGEST} bytes); name a shorter one with --socket or "
            f"{SOCKET_VARIABLE}"
        )
    return path


@dataclass(frozen=True, slots=True)
class ManagerAccess:
    """A machine manager as its nodes reach it. address : HOST:PORT.  key : text of its key file"""

    address: str
    key: str

    def write(self, socket: Path) -> None:
        """Leave it beside the socket of a node manager, which holds its lock; raises `OSError`."""
        write_whole(machine_file(socket), json.dumps(asdict(self)).encode(), mode=0o600)


def machine_file(socket: Path) -> Path:
    """Return the file with address and key of the machine manager of a node manager that was started for runs."""
    return socket.with_suffix(".machine")


def machine_of(address: str | None, socket: Path) -> ManagerAccess | None:
    """Return the machine manager at `address` of the node manager at a socket; None if its key is not known."""
    try:
        access = ManagerAccess(**json.loads(machine_file(socket).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    # The file of an earlier manager, if a node manager was killed before it could remove it.
    return access if access.address == address else None


def known_sockets(given: Path | None = None) -> list[Path]:
    """Return sockets of the node managers that this user may ask on this host, the likeliest first.

    `given` is the only one, if the user names it.
    """
    named = os.environ.get(SOCKET_VARIABLE)
    if given is not None or named:
        return [given or Path(named or "")]
    usual_name = f"node-{local_host()}.sock"
    sockets = [[Path(path) for path in paths] for paths in nodesockets.sockets(os.environ)]
    return [path for paths in sockets for path in sorted(paths, key=lambda path: path.name != usual_name)]


def private_directory(path: Path, *, all_users: bool = False) -> Path:
    """Make the directory of a socket, or check that no other user can write there; raises `SharingError`.

    all_users : all may connect to the socket, as always in the system's directory
    """
    reached = all_users or path == SYSTEM_DIRECTORY
    with os_errors_as(
        SharingError,
        f"{path}: cannot be made: {REASON}; name another place with --socket or {SOCKET_VARIABLE}",
    ):
        path.mkdir(parents=True, exist_ok=True, mode=0o755 if reached else 0o700)
        # Of the directory itself: a link may be redirected after the check.
        about = path.lstat()
    # Also where others may add files only (mode 1777): lock and journal stand beside the socket.
    loose = about.st_mode & 0o022
    if not stat.S_ISDIR(about.st_mode) or about.st_uid not in (os.getuid(), 0) or loose:
        raise SharingError(
            f"{path}: others could put files of theirs there (owner {about.st_uid}, mode "
            f"{stat.S_IMODE(about.st_mode):04o}); expected a directory of yours that only you may write to. Remove it, "
            f"or name another place with --socket or {SOCKET_VARIABLE}"
        )
    return path


def read_key(path: Path) -> bytes:
    """Return the key from a file; raises `ConfigError` if it is unreadable, readable by others or too short."""
    try:
        key = read_secret(path, "key")
    except UsageError as error:
        raise ConfigError(f"{error}; `apples manager --new-key {path}` makes one") from None
    if len(key) < _SHORTEST:
        raise ConfigError(
            f"{path}: {len(key)} characters are no key; at least {_SHORTEST} are needed, and "
            f"`apples manager --new-key FILE` makes one"
        )
    return key.encode()


def read_node_key(path: Path, node: str) -> bytes:
    """Return the key of a node from its own key file, or derived from the manager's; raises `ConfigError`."""
    key = read_key(path)
    if not key.startswith(_NODE_KEY):
        return node_key(key, node)
    try:
        _, name, digits = key.decode().split(":")
        node_bytes = bytes.fromhex(digits)
        if len(node_bytes) != _NODE_KEY_BYTES:
            # Cut short while it was copied.
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"{path}: is no whole key of a node; `apples manager --key FILE --enrol {node}` prints one"
        ) from None
    if name != node:
        raise ConfigError(
            f"{path}: is the key of node {name}, not of {node}; give this node its own key, or its name with --name"
        )
    return node_bytes


def enrolled(path: Path, node: str) -> str:
    """Return the text of a key file of one node. `path`: of the manager's key. Raises `ConfigError`."""
    name = check_job(node, what="--enrol")
    return f"{_NODE_KEY.decode()}{name}:{node_key(read_manager_key(path), name).hex()}"


def shared_machine(address: str, path: Path) -> ManagerAccess | None:
    """Return a machine manager for runs that have other hosts join it; None if the key file at `path` is of one node.

    Raises `ConfigError`.
    """
    key = read_key(path)
    return None if key.startswith(_NODE_KEY) else ManagerAccess(address, key.decode())


def read_manager_key(path: Path) -> bytes:
    """Return the manager's key from a file; raises `ConfigError`, also for the key of a node."""
    key = read_key(path)
    if key.startswith(_NODE_KEY):
        raise ConfigError(
            f"{path}: is the key of one node; expected the manager's, from which all others follow"
        )
    return key


def new_key(path: Path) -> None:
    """Write a new key to a file of mode 0600; raises `ConfigError` if the file exists or cannot be made."""
    try:
        # With its mode from the start: a `chmod` afterwards would leave the key readable for a moment.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(32)}\n")
    except FileExistsError:
        raise ConfigError(
            f"{path}: is there already; remove it first if the nodes are to have a new key"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}; name another file") from None
