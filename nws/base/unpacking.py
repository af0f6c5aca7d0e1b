"""The first part of a program that is sent to a host with Python 3.8 or later: makes its modules importable.

The text of this file is sent, so it imports the standard library only. The modules go into the user's cache directory
under a digest of their content. Python thus compiles them once, and other processes of the host can use them.
"""

from __future__ import annotations

import binascii
import json
import os
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: Variable with the paths, a line each, that are not used on this host, as other users may replace them.
UNTRUSTED = "APPLES_UNTRUSTED"

#: Modules that were not used for so many seconds are removed.
_UNUSED_S = 30 * 86_400.0


def run(packed: str, digest: str, entry: str, arguments: list[str]) -> None:
    """Run `main(arguments)` of the module `entry` and exit with its result.

    Args:
        packed: relative path → text of each file, as JSON, compressed, in base 64
        digest: of the same; empty if the files are not to be kept
    """
    files = json.loads(zlib.decompress(binascii.a2b_base64(packed)))
    adapt()
    # not importable yet
    names: dict[str, Any] = {"__name__": "nws.base.files"}
    exec(files["nws/base/files.py"], names)
    directory, temporary = unpacked(files, digest, names["write_whole"], names["untrusted"])
    sys.path.insert(0, directory)
    try:
        from importlib import import_module

        sys.exit(import_module(entry).main(arguments))
    finally:
        if temporary:
            _remove(directory)


def adapt() -> None:
    """Give an older Python the parts of 3.10 and 3.11 that sent modules use: keywords of `dataclass`, `StrEnum`."""
    if sys.version_info < (3, 10):
        import dataclasses

        plain = dataclasses.dataclass

        def dataclass(cls: Any = None, *, slots: bool = False, kw_only: bool = False, **more: Any) -> Any:
            if cls is None:
                return lambda cls: dataclass(cls, slots=slots, kw_only=kw_only, **more)
            if kw_only:
                # fields without a default may follow others, whose order does not matter
                fields = cls.__annotations__.items()
                cls.__annotations__ = dict(sorted(fields, key=lambda field: hasattr(cls, field[0])))
            return plain(cls, **more)

        dataclasses.dataclass = dataclass
    if sys.version_info < (3, 11):
        import enum

        class StrEnum(str, enum.Enum):
            __str__ = str.__str__
            __format__ = str.__format__

        enum.StrEnum = StrEnum


def unpacked(
    files: Mapping[str, str],
    digest: str,
    write: Callable[[str, bytes], None],
    untrusted: Callable[[str], str],
) -> tuple[str, bool]:
    """Return a directory with these files, and whether it is to be removed afterwards.

    Files that differ from those sent are replaced. A cache directory that other users may write to or replace is not
    used, nor a symbolic link, nor a relative path, which a user without a home directory has.

    Args:
        digest: name in the cache directory; empty for a directory outside it
        write: replaces a file as a whole; other hosts may share the directory and write the same file at once
        untrusted: returns how other users could replace a path, empty if they cannot
    """
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    ours = os.path.join(caches, "apples")
    try:
        if not (digest and os.path.isabs(ours)):
            raise NotADirectoryError(ours)
        os.makedirs(ours, 0o700, exist_ok=True)
        # of a symbolic link, whose mode is 0o777
        state = os.lstat(ours)
        if state.st_uid == os.geteuid() and not state.st_mode & 0o022 and not untrusted(ours):
            directory = os.path.join(ours, digest)
            _fill(directory, files, write)
            _forget_unused(ours, directory)
            return directory, False
        os.environ[UNTRUSTED] = "\n".join(filter(None, (os.environ.get(UNTRUSTED), ours)))
    except OSError:
        # not to be kept, no home directory, or no room in it
        pass
    import tempfile

    directory = tempfile.mkdtemp(prefix="apples-")
    _fill(directory, files, write)
    return directory, True


def _fill(directory: str, files: Mapping[str, str], write: Callable[[str, bytes], None]) -> None:
    for name, text in files.items():
        path, content = os.path.join(directory, name), text.encode()
        try:
            with open(path, "rb") as file:
                if file.read() == content:
                    continue
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        write(path, content)


def _forget_unused(ours: str, current: str) -> None:
    os.utime(current)
    now = os.stat(current).st_mtime
    for name in os.listdir(ours):
        other = os.path.join(ours, name)
        try:
            unused_s = now - os.lstat(other).st_mtime
        except FileNotFoundError:
            # another process has just removed it
            continue
        if unused_s > _UNUSED_S:
            _remove(other)


def _remove(directory: str) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)
