"""Versioned JSON documents, one per file: run records, benchmarks, known hosts and links.

A document is written completely or not at all (`nws.base.files`), with a checksum (`nws.base.sealed`). It names its
`format` and version. An unusable file raises an error that names the file and the remedy; several unusable files are
reported at once.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from apples.errors import HistoryError
from nws.base.files import write_whole
from nws.base.sealed import seal, unseal

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A kind of document. `version`: the newest that can be read. `lost`: the data lost with a removed file."""

    name: str
    version: int
    lost: str


class BadDocument(Exception):
    """The content of a file is not usable. `read_all` adds the name of the file and the remedy."""


def write(path: Path, kind: Format, body: Mapping[str, Any]) -> None:
    """Write a document, and its directory if absent; raises `HistoryError` (no space, no permission, …)."""
    text = seal({"format": kind.name, "version": kind.version, **body})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, sync=True)
    except OSError as error:
        raise HistoryError(
            f"{path}: cannot be written: {error.strerror}; "
            "make room or give the right to write there, or set APPLES_STATE to another directory"
        ) from None


def read_all(paths: Iterable[Path], kind: Format, decode: Callable[[dict[str, Any]], T]) -> list[T]:
    """Return the decoded documents of files, in their order. Absent files are skipped.

    decode : returns the value of a document, or raises `BadDocument`.  Raises `HistoryError` listing all bad files
    """
    values: list[T] = []
    problems: list[str] = []
    for path in paths:
        try:
            values.append(decode(_document(path, kind)))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror}; give the right to read it")
        except BadDocument as error:
            problems.append(f"{path}: {error}")
    if problems:
        raise HistoryError("\n".join(problems))
    return values


def files(directory: Path) -> list[Path]:
    """Return the documents of a directory, ordered by name; an empty list if it does not exist."""
    try:
        with os.scandir(directory) as entries:
            names = [e.name for e in entries if e.name.endswith(".json") and not e.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HistoryError(
            f"{directory}: cannot be read: {error.strerror}; "
            "give the right to read it, or set APPLES_STATE to another directory"
        ) from None
    return [directory / name for name in sorted(names)]


def _document(path: Path, kind: Format) -> dict[str, Any]:
    remove = f"move it away or remove it ({kind.lost})"
    try:
        document = unseal(path.read_bytes())
    except (ValueError, RecursionError) as error:
        what = "is empty" if path.stat().st_size == 0 else f"is not readable JSON ({error})"
        raise BadDocument(f"{what}: half-written or damaged; {remove}") from None
    if not isinstance(document, dict) or document.get("format") != kind.name:
        raise BadDocument(f"is not an {kind.name} file; {remove}")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise BadDocument(f"has no version (got {version!r}); {remove}")
    if version > kind.version:
        raise BadDocument(
            f"is of version {version}, written by a newer release; this one reads up to {kind.version}: "
            "upgrade, or set APPLES_STATE to another directory"
        )
    return document
