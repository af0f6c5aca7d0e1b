"""Versioned JSON documents, one per file: drained hosts, known hosts and links.

A document is written completely or not at all (`nws.base.files`), with a checksum (`nws.base.sealed`), readable by its
user alone. It names its `format` and version. The message on an unusable file names the file and the remedy.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from apples.errors import HistoryError
from apples.model.launchrequest import Notify
from nws.base.files import make_private, read_regular, write_whole
from nws.base.oserrors import REASON, os_errors_as
from nws.base.sealed import seal, unseal

T = TypeVar("T")

#: A longer file is no document of this package.
LONGEST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(Generic[T]):
    """A kind of document. `version`: the newest that can be read. `lost`: the data lost with a removed file.

    content : struct of the document's fields, with their bounds.  what : its content in words
    """

    name: str
    version: int
    lost: str
    content: type[T]
    what: str


class _BadDocument(Exception):
    """The content of a file is not usable. `read` adds the name of the file."""


def write(path: Path, kind: Format[T], content: T) -> None:
    """Write a document, and its directory if absent; raises `HistoryError` (no space, no permission, …)."""
    text = seal({"format": kind.name, "version": kind.version, **msgspec.to_builtins(content)})
    with os_errors_as(
        HistoryError,
        f"{path}: cannot be written: {REASON}; "
        "make room or give the right to write there, or set APPLES_STATE to another directory",
    ):
        make_private(path.parent)
        write_whole(path, text, mode=0o600, sync=True)


def read(path: Path, kind: Format[T], notify: Notify | None = None) -> T | None:
    """Return the content of a file; None if the file is absent.

    notify : receives why a file cannot be used, which then counts as absent; without it, that raises `HistoryError`
    """
    try:
        return _document(path, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}; give the right to read it, or remove it ({kind.lost})"
    except _BadDocument as error:
        problem = str(error)
    if notify is None:
        raise HistoryError(f"{path}: {problem}")
    notify(f"{path}: {problem}; going on without it")
    return None


def _document(path: Path, kind: Format[T]) -> T:
    remove = f"move it away or remove it ({kind.lost})"
    try:
        content = read_regular(path, LONGEST_BYTES)
        document = unseal(content)
    except (ValueError, RecursionError) as error:
        what = f"is not readable JSON ({error})" if content else "is empty"
        raise _BadDocument(f"{what}: half-written or damaged; {remove}") from None
    if not isinstance(document, dict) or document.get("format") != kind.name:
        raise _BadDocument(f"is not an {kind.name} file; {remove}")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise _BadDocument(f"has no version (got {version!r}); {remove}")
    if version > kind.version:
        raise _BadDocument(
            f"is of version {version}, written by a newer release; this one reads up to {kind.version}: "
            "upgrade, or set APPLES_STATE to another directory"
        )
    try:
        return msgspec.convert(document, kind.content)
    except ValueError:
        raise _BadDocument(f"has no {kind.what}; remove it ({kind.lost})") from None
