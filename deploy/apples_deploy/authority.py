"""Tokens and certificates of a deployment, made once and kept in a private directory where the command runs.

Certificates are made by the program `openssl`. Without the directory, the next deployment makes everything anew.
"""

import ipaddress
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nws.base.errors import StoreError
from nws.base.files import write_whole
from nws.base.lock import FileLock, LockHeld
from nws.base.paths import refuse_shared
from nws.base.program import ProgramFailed, output_of
from nws.base.scratch import ScratchDirectory

#: Days for which the authority and a server's certificate are valid, and seconds before its end at which it is renewed.
CA_DAYS, SERVER_DAYS, RENEW_S = 3650, 398, 30 * 86400
_OPENSSL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A server's certificate and key, and the certificate of the authority that signed it, in PEM form."""

    certificate: str
    key: str
    authority: str


class Authority:
    """The secrets in one directory. Raises `StoreError` if it cannot be used, or if `openssl` fails."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{directory}: cannot be made: {error.strerror}; set APPLES_STATE") from error
        refuse_shared(directory)

    def secret(self, name: str) -> str:
        """Return a random secret as one line, made at the first call."""
        with self._alone():
            return self._kept(name) or self._keep(name, f"{secrets.token_urlsafe(32)}\n")

    def path(self, name: str) -> Path:
        """Return the file of a secret."""
        return self._directory / name

    def secrets(self, suffix: str) -> dict[str, str]:
        """Return all secrets with this ending of the name, by its beginning."""
        names = sorted(path.name.removesuffix(suffix) for path in self._directory.glob(f"*{suffix}"))
        return {name: self._kept(f"{name}{suffix}") for name in names}

    def forget(self, name: str) -> None:
        """Remove a secret."""
        (self._directory / name).unlink(missing_ok=True)

    def certificate(self, names: Sequence[str]) -> Certificate:
        """Return a server's certificate for host names and addresses; made anew for other names, or near its end."""
        with self._alone():
            authority = self._kept("ca.pem") or self._make_authority()
            wanted = "\n".join(names)
            certificate, key = self._kept("server.pem"), self._kept("server.key")
            if not (certificate and key and self._kept("server.names") == wanted and self._lasts()):
                certificate, key = self._make_server(names)
                self._keep("server.names", wanted)
            return Certificate(certificate=certificate, key=key, authority=authority)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the directory: of two processes, one could sign with the key of the other's authority."""
        try:
            lock = FileLock(self._directory / ".lock")
        except LockHeld as held:
            raise StoreError(
                f"{self._directory}: in use by {held.holder}; repeat the command when that one is over"
            ) from None
        with lock:
            yield

    def _lasts(self) -> bool:
        try:
            _openssl("x509", "-checkend", str(RENEW_S), "-noout", "-in", self._directory / "server.pem")
        except StoreError:
            return False
        return True

    def _make_authority(self) -> str:
        extensions = ["basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign,cRLSign"]
        with _scratch("apples-grid authority", extensions) as at:
            key, made = at / "key", at / "made"
            _new_key("req", "-x509", "-days", str(CA_DAYS), "-keyout", key, "-out", made, config=at)
            self._keep("ca.key", key.read_text())
            return self._keep("ca.pem", made.read_text())

    def _make_server(self, names: Sequence[str]) -> tuple[str, str]:
        subjects = ",".join(f"{_kind(name)}:{name}" for name in names)
        extensions = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
        extensions += ["extendedKeyUsage=serverAuth", f"subjectAltName={subjects}"]
        with _scratch(names[0], extensions) as at:
            key, request, made = (at / name for name in ("key", "request", "made"))
            _new_key("req", "-new", "-keyout", key, "-out", request, config=at)
            ca: list[str | Path] = ["-CA", self._directory / "ca.pem", "-CAkey", self._directory / "ca.key"]
            serial = ["-set_serial", f"0x{secrets.token_hex(16)}", "-days", str(SERVER_DAYS)]
            config: list[str | Path] = ["-extfile", at / "config", "-extensions", "extensions"]
            _openssl("x509", "-req", "-in", request, *ca, *serial, *config, "-out", made)
            key_text = self._keep("server.key", key.read_text())
            return self._keep("server.pem", made.read_text()), key_text

    def _kept(self, name: str) -> str:
        try:
            return (self._directory / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def _keep(self, name: str, text: str) -> str:
        write_whole(self._directory / name, text, mode=0o600, sync=True)
        return text


@contextmanager
def _scratch(subject: str, extensions: Sequence[str]) -> Iterator[Path]:
    """Yield a private directory with openssl's settings, so that those of the system have no effect."""
    identifiers = ["subjectKeyIdentifier=hash"]
    lines = ["[req]", "distinguished_name=subject", "x509_extensions=extensions", "prompt=no"]
    lines += ["[subject]", f"CN={subject[:64]}", "[extensions]", *identifiers, *extensions]
    with ScratchDirectory("apples-openssl-") as directory:
        (directory / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield directory


def _new_key(*words: str | Path, config: Path) -> None:
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(*words, *curve, "-config", config / "config")


def _openssl(*words: str | Path) -> None:
    try:
        output_of(["openssl", *map(str, words)], limit_s=_OPENSSL_S)
    except ProgramFailed as failure:
        raise StoreError(
            f"openssl {words[0]} failed: {failure.reason}: {failure.last_line}; it makes the server's certificate "
            "(Debian: openssl)"
        ) from None


def _kind(name: str) -> str:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "DNS"
    return "IP"
