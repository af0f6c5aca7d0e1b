"""The address of a weather service, with the token and certificates for it.

Read from options or from the environment (`NWS_SERVER`, `NWS_TOKEN_FILE`, `NWS_CA`) and checked before anything is
sent. A token file that other users can read is refused, as ssh refuses such a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from nws.base.errors import UsageError
from nws.base.files import read_regular
from nws.base.oserrors import REASON, os_errors_as

_LEGAL = "expected http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A service that can be called. url : without a slash at its end.  token : None for an open service."""

    url: str
    token: str | None = None
    ca: Path | None = None

    @classmethod
    def of(cls, url: str, *, token_file: Path | None = None, ca: Path | None = None) -> Endpoint:
        """Check an address and read the token; raises `UsageError` with the legal values."""
        if ca is not None and not ca.is_file():
            raise UsageError(f"{ca}: no such file; it holds the certificates to trust, in PEM form")
        return cls(url=checked_url(url), token=None if token_file is None else read_token(token_file), ca=ca)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Endpoint | None:
        """Return the service that `NWS_SERVER` names; None when it names none. Raises `UsageError`."""
        env = os.environ if environ is None else environ
        url, token_file, ca = (env.get(name) for name in ("NWS_SERVER", "NWS_TOKEN_FILE", "NWS_CA"))
        if not url:
            return None
        return cls.of(url, token_file=Path(token_file) if token_file else None, ca=Path(ca) if ca else None)


def checked_url(url: str) -> str:
    """Return the address of a service, without a slash at its end; raises `UsageError` when it is none."""
    if not isinstance(url, str):
        raise UsageError(f"{url!r} is no address of a service; {_LEGAL}")
    try:
        parts = urlsplit(url)
        legal = (
            parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        )
    except ValueError as error:
        raise UsageError(f"{url!r} is no address of a service: {error}; {_LEGAL}") from None
    if not legal or any(c.isspace() for c in url):
        raise UsageError(f"{url!r} is no address of a service; {_LEGAL}")
    if parts.username is not None:
        raise UsageError(
            f"the address of a service at {parts.hostname} holds a name or password; use a token file"
        )
    if parts.query or parts.fragment:
        raise UsageError(f"{url!r} has more than an address; {_LEGAL}")
    return url.rstrip("/")


def read_token(path: Path) -> str:
    """Return the token a file holds; raises `UsageError` when it cannot be read, others could read it, or it
    is none.
    """
    return read_secret(path, "token")


def read_secret(path: Path, what: str) -> str:
    """Return the one word in a file; raises as `read_token` does. what : token or key, for the message"""
    with os_errors_as(UsageError, f"{path}: the {what} cannot be read: {REASON}"):
        secret = read_regular(path, 4096, private=True).strip()
    if not secret or not all(33 <= byte <= 126 for byte in secret):
        raise UsageError(f"{path}: not a {what}: expected one word of visible ASCII characters")
    return secret.decode("ascii")
