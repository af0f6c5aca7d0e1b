"""The key that manager and node managers share: made, and read from a file that nobody else may read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from apples.errors import ConfigError
from nws.base.errors import UsageError
from nws.client.endpoint import read_secret

#: Characters that a key has at least: 128 bits in hexadecimal digits.
_SHORTEST = 32


def read_key(path: Path) -> bytes:
    """The key in a file; raises `ConfigError` where it cannot be read, others could read it, or it is too short."""
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


def new_key(path: Path) -> None:
    """Make a file of mode 0600 with a new key; raises `ConfigError` where there is one already or none can be."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(32)}\n")
    except FileExistsError:
        raise ConfigError(
            f"{path}: is there already; remove it first if the nodes are to have a new key"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror}; name another file") from None
