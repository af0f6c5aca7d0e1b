"""Files that are written completely or not at all: beside their place, then renamed.

A reader, or a process killed at any moment, finds the old file, the new file or none. Scripts that start with each
rank import this module, so it imports `os` alone.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_SUFFIX = ".whole-tmp"
#: A temporary file of this age, in seconds, belongs to a writer that was killed.
_ABANDONED_AFTER_S = 3600.0
#: User that the kernel shows in place of those without a number here.
_NOBODY = 65534
#: Damaged files of one name that are kept.
_MOST_ASIDE = 3


class Replacement:
    """A temporary file that replaces `path` at the end of a `with` block, or is removed if the block raises.

    The block gets the temporary's path; the file is empty, in the directory of `path`, with `mode` less the umask.
    sync : flush file and directory to disk, so that the new file survives a power failure. Temporaries that killed
    writers left in the directory are removed as well.
    """

    def __init__(self, path: str | os.PathLike[str], *, mode: int = 0o666, sync: bool = False) -> None:
        self._path = os.fspath(path)
        self._mode, self._sync = mode, sync
        self._directory, name = os.path.split(self._path)
        self._directory = self._directory or "."
        # random, as threads and hosts that share the directory may write the same file at once
        self._temporary = os.path.join(self._directory, f".{name}.{os.urandom(4).hex()}{_SUFFIX}")

    def __enter__(self) -> str:
        if self._sync:
            _remove_abandoned(self._directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(self._temporary, flags, self._mode))
        return self._temporary

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                # data before the name: after a power failure the name must not show an empty file
                if self._sync:
                    flush_to_disk(self._temporary)
                put_in_place(self._temporary, self._path, sync=self._sync)
        finally:
            _remove(self._temporary)


def write_whole(
    path: str | os.PathLike[str], data: str | bytes, *, mode: int = 0o666, sync: bool = False
) -> None:
    """Replace the content of a file; raises `OSError` with the old file unchanged.

    Args:
        path: the file; its directory exists.
        data: the new content; text is written as UTF-8, undecodable bytes of the environment as they were.
        mode: permissions, less the umask.
        sync: as in `Replacement`.
    """
    content = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    with Replacement(path, mode=mode, sync=sync) as temporary, open(temporary, "wb") as file:
        file.write(content)


def read_regular(path: str | os.PathLike[str], longest_bytes: int, *, private: bool = False) -> bytes:
    """Return the content of a regular file; raises `OSError`, also for pipes, devices and longer files.

    private : raise for a file that others than its owner may read or write, too
    """
    # not blocking, as it may be a pipe without a writer
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not os.path.isfile(descriptor):
            raise OSError(0, "it is no regular file", os.fspath(path))
        mode = os.fstat(descriptor).st_mode & 0o7777
        if private and mode & 0o077:
            reason = f"others may read it (mode {mode:04o}); run: chmod 600 '{os.fspath(path)}'"
            raise OSError(0, reason, os.fspath(path))
        if os.fstat(descriptor).st_size > longest_bytes:
            raise OSError(0, f"it has more than {longest_bytes} bytes", os.fspath(path))
        return file.read(longest_bytes)


def untrusted(path: str | os.PathLike[str]) -> str:
    """Return how other users could change or replace a file or directory; empty if only this user and root can.

    Looks at it and at every directory above, also of the targets of symbolic links. A group may write if it has the
    number of the owner, as private groups of users have, or no other member, and to directories above; all may write to
    directories above with the sticky bit, as /tmp has. What does not exist is trusted. The text ends with the remedy.
    """
    name = os.path.abspath(path)
    # The owner of / is root, also where a user namespace gives root another number.
    trusted = {os.geteuid(), 0, os.stat("/").st_uid}
    ends = [name]
    while os.path.islink(ends[-1]) and len(ends) < 40:
        ends.append(os.path.normpath(os.path.join(os.path.dirname(ends[-1]), os.readlink(ends[-1]))))
    for end in dict.fromkeys([*ends, os.path.realpath(name)]):
        part, above = end, False
        while True:
            if problem := _problem(part, trusted, above=above):
                return problem
            if part == os.path.dirname(part):
                break
            part, above = os.path.dirname(part), True
    return ""


def _problem(part: str, trusted: set[int], *, above: bool) -> str:
    """Return how other users could change a path itself, with the remedy; empty if they cannot, or it is absent."""
    try:
        about = os.lstat(part)
    except OSError:
        return ""
    mode = 0 if os.path.islink(part) else about.st_mode
    if about.st_uid not in trusted:
        remedy = "use a path of this user"
        if about.st_uid == _NOBODY:
            remedy = (
                "that stands for users unknown here (root-squashed NFS, user namespaces): use a local disk"
            )
    elif mode & 0o002 and not (above and mode & 0o1000):
        remedy = f"chmod o-w {part}"
    elif not above and mode & 0o020 and about.st_gid != about.st_uid and not _alone_in(about.st_gid):
        remedy = f"chmod g-w {part}, as group {about.st_gid} may have other members"
    else:
        return ""
    return f"{part} has mode {about.st_mode & 0o7777:04o} and owner {about.st_uid}{_name(about.st_uid)}; {remedy}"


def _name(user: int) -> str:
    """Return a user's name in brackets, empty if it has none."""
    import pwd

    try:
        return f" ({pwd.getpwuid(user).pw_name})"
    except KeyError:
        return ""


def _alone_in(group: int) -> bool:
    """Return whether this user is known to be the only member of a group."""
    import grp
    import pwd

    try:
        name, members = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group).gr_mem
    except KeyError:
        return False
    users = {user.pw_name: user.pw_gid for user in pwd.getpwall()}
    # Some directories of users are not listed: then nothing is known of their groups.
    return name in users and {*members, *(n for n, gid in users.items() if gid == group)} == {name}


def make_private(directory: str | os.PathLike[str]) -> None:
    """Create a directory, and those above it, for this user alone; one that exists stays as it is. Raises `OSError`."""
    path = os.fspath(directory)
    if not os.path.isdir(path):
        make_private(os.path.dirname(os.path.abspath(path)))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # another process was quicker; anything else than a directory is an error
            if not os.path.isdir(path):
                raise


def put_in_place(temporary: str | os.PathLike[str], path: str | os.PathLike[str], *, sync: bool) -> None:
    """Rename a complete file to its final name; raises `OSError`. sync : as in `Replacement`."""
    os.replace(temporary, path)
    if sync:
        flush_to_disk(os.path.dirname(os.fspath(path)) or ".")


def set_aside(path: str | os.PathLike[str], *, keep: bool = False) -> str:
    """Rename a damaged file to ``NAME.damaged-N`` and return that name; the newest three are kept. Raises `OSError`.

    keep : keep the old name as well, to be replaced
    """
    directory, name = os.path.split(os.fspath(path))
    prefix = f"{name}.damaged-"
    numbers = [
        int(entry[len(prefix) :])
        for entry in os.listdir(directory or ".")
        if entry.startswith(prefix) and entry[len(prefix) :].isdigit()
    ]
    new = max(numbers, default=0) + 1
    aside = os.path.join(directory, f"{prefix}{new}")
    if keep:
        os.link(path, aside)
    else:
        os.replace(path, aside)
    for number in numbers:
        if number <= new - _MOST_ASIDE:
            _remove(os.path.join(directory, f"{prefix}{number}"))
    return aside


def flush_to_disk(path: str | os.PathLike[str]) -> None:
    """Flush a file or a directory to disk; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned(directory: str) -> None:
    with os.scandir(directory) as entries:
        leftovers = [entry.path for entry in entries if entry.name.endswith(_SUFFIX)]
    if not leftovers:
        return
    import time

    for path in leftovers:
        try:
            if os.stat(path).st_mtime < time.time() - _ABANDONED_AFTER_S:
                os.unlink(path)
        except OSError:
            # another writer removed it, or it belongs to another user
            continue


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        # renamed, or the directory is gone
        return
