"""One JSON document per file, whole or not there at all: what history and calibration are kept in.

A document is written to a temporary beside its place, flushed to disk and renamed, so that a reader (or a run
cut short at any moment) finds the old file, the new file or none, never half of one. Each says what it is
(``format``) and in which version. A file that cannot be used is an error that names it and says what to do; several
bad files are told at once. What is in the documents is decided by `apples.learning.history` and `apples.calibration`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from apples.errors import HistoryError

T = TypeVar("T")

#: A temporary older than this was left by a process that was killed while it wrote.
_ABANDONED_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What a kind of file holds. `version`: newest that is understood. `lost`: what removing a file loses."""

    name: str
    version: int
    lost: str


class BadDocument(Exception):
    """The content of one file cannot be used; `read_all` adds the file's name and what to do."""


def write(path: Path, kind: Format, body: Mapping[str, Any]) -> None:
    """Put the document in its place, creating the directory; raises `HistoryError` (no room, no right, …)."""
    text = json.dumps({"format": kind.name, "version": kind.version, **body}, allow_nan=False)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise HistoryError(
            f"{path}: cannot be written: {error.strerror}; "
            "make room or give the right to write there, or set APPLES_STATE to another directory"
        ) from None


def read_all(paths: Iterable[Path], kind: Format, decode: Callable[[dict[str, Any]], T]) -> list[T]:
    """The documents of these files, in their order; raises `HistoryError` naming every bad file at once.

    decode : makes the value out of a document; raises `BadDocument` saying what is wrong with it
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
    """Documents in a directory in the order of their names; none where it does not exist."""
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
        document = json.loads(path.read_bytes())
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


def _sweep(directory: Path) -> None:
    """Remove temporaries of writers that were killed; those of live ones are young."""
    limit = time.time() - _ABANDONED_AFTER_S
    for path in directory.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < limit:
                path.unlink()


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
