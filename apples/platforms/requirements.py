"""Requirements of a run on the hosts of a platform: versions, files, disk space, compiled kernels."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from apples.launching.command import RANK_WRAPPER
from apples.launching.preflight import SHARED_BYTES_FIXED, SHARED_BYTES_PER_RANK
from apples.platforms.platform import Preparation
from apples.remote import hostcheck
from apples.remote.facts import Needs
from apples.remote.warmhosts import Kernels, WarmHosts


class Requirements:
    """Requirements that each check of the hosts includes. kernels : to be compiled, None for none"""

    def __init__(self, warm_file: Path) -> None:
        """warm_file : list of the hosts on which kernels are compiled; made with the first host."""
        self.kernels: Kernels | None = None
        self._warm_file = warm_file
        self._disk_bytes: dict[str, float] = {}
        self._optional: list[str] = []

    def add(self, preparation: Preparation) -> None:
        """Add the requirements of a run."""
        self.kernels = Kernels(command=tuple(preparation.warm_command), warm=WarmHosts(self._warm_file))
        path = preparation.checkpoint
        if path is not None and preparation.checkpoint_bytes is not None:
            self._disk_bytes[str(path.absolute())] = preparation.checkpoint_bytes
        elif path is not None:
            self._optional.append(str(path.absolute()))

    @contextmanager
    def needs(self) -> Iterator[Needs]:
        """Yield the needs; meanwhile, marker files exist by which hosts recognise a shared file system."""
        tokens: dict[str, str] = {}
        try:
            for path in (*self._disk_bytes, *self._optional):
                token = f".apples-shared-{secrets.token_hex(8)}"
                with contextlib.suppress(OSError):
                    Path(path).with_name(token).touch()
                    tokens[path] = token
            yield replace(
                needs_of_ranks(), disk_bytes=self._disk_bytes, tokens=tokens, wished=tuple(self._optional)
            )
        finally:
            for path, token in tokens.items():
                with contextlib.suppress(OSError):
                    os.unlink(Path(path).with_name(token))


def needs_of_ranks() -> Needs:
    """Return the needs of ranks of any program: versions, files and shared memory."""
    return Needs(
        versions=hostcheck.versions(),
        files=(str(RANK_WRAPPER),),
        shared_memory_bytes=SHARED_BYTES_FIXED + SHARED_BYTES_PER_RANK,
    )
