"""Bearer tokens: created, read from files that only their owner can read, and compared.

A token has a role. Only hashes are stored, and every comparison covers all of them, so that its duration reveals
nothing. The routes decide the role that a request needs.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nws.base.errors import ConfigError, UsageError
from nws.base.files import read_regular
from nws.base.oserrors import REASON, os_errors_as

_LEGAL = re.compile(rb"[A-Za-z0-9._~+/=-]{16,512}")
#: A longer file is not a token.
_MOST_BYTES = 4096


class Role(StrEnum):
    """The role of a token; `ADMIN` includes all others."""

    READ = "read"
    """Everything that only asks."""
    WRITE = "write"
    """Registering a host, putting its measurements, events."""
    ADMIN = "admin"
    """All of that, forgetting hosts, and writing any host's series."""


EVERY_ROLE = frozenset(Role)
NO_ROLE: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Permissions. `digests`: role → SHA-256 of its tokens; without any, every request has every role."""

    digests: Mapping[Role, tuple[bytes, ...]]

    @classmethod
    def none(cls) -> Tokens:
        """Return no tokens: for loopback only."""
        return cls(digests={})

    @classmethod
    def of(cls, tokens: Mapping[Role, Iterable[str]]) -> Tokens:
        """Return tokens from their text."""
        return cls(digests={role: tuple(_digest(t) for t in some) for role, some in tokens.items()})

    @classmethod
    def load(cls, files: Mapping[Role, Iterable[Path]]) -> Tokens:
        """Return tokens from their files; raises `ConfigError` with all unfit files and remedies."""
        problems: list[str] = []
        tokens: dict[Role, list[str]] = {}
        for role, paths in files.items():
            for path in paths:
                try:
                    tokens.setdefault(role, []).append(read_token(path))
                except ConfigError as error:
                    problems += error.problems
        if problems:
            raise ConfigError(problems)
        return cls.of(tokens)

    @property
    def required(self) -> bool:
        """Return whether requests need a token at all."""
        return any(self.digests.values())

    def roles(self, token: str | None) -> frozenset[Role]:
        """Return the roles of a token; none if it is unknown or absent."""
        if not self.required:
            return EVERY_ROLE
        if token is None:
            return NO_ROLE
        digest = _digest(token)
        # compare all, so that the duration does not depend on the token
        known = {role for role, some in self.digests.items() for d in some if hmac.compare_digest(digest, d)}
        return EVERY_ROLE if Role.ADMIN in known else frozenset(known)


def fingerprint(token: str) -> str:
    """Return a short name of a token for tables of clients; the token cannot be derived from it."""
    return _digest(token).hex()[:16]


def read_token(path: Path) -> str:
    """Return the token in a file; raises `ConfigError` if it is invalid or readable by others than its owner."""
    with os_errors_as(
        ConfigError, f"{path}: the token cannot be read: {REASON}; make one with: nws token {path}"
    ):
        token = read_regular(path, _MOST_BYTES, private=True).strip()
    if not _LEGAL.fullmatch(token):
        raise ConfigError(
            f"{path}: not a token; expected one line of 16 to 512 of A-Z a-z 0-9 . _ ~ + / = -, "
            f"such as `nws token FILE` makes"
        )
    return token.decode("ascii")


def create_token(path: Path) -> None:
    """Write a new random token to a new file of mode 0600; raises `UsageError` if the file exists."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path}: exists and was not changed; name a new file, or remove this one") from None
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be made: {error.strerror}; name a file in a directory you may write to"
        ) from None
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            # the umask may have removed permissions of the owner
            os.fchmod(file.fileno(), 0o600)
            file.write(secrets.token_urlsafe(32) + "\n")
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
