"""Requirements of a run on the hosts of a platform: versions, files, disk space, compiled kernels."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from apples.hosts import hostcheck
from apples.hosts.facts import Needs
from apples.hosts.warmhosts import Kernels, WarmHosts
from apples.launching.command import RANK_WRAPPER
from apples.launching.preflight import SHARED_BYTES_FIXED, SHARED_BYTES_PER_RANK, files_on_hosts
from apples.model.launchrequest import MpiChoice
from apples.model.template import Application
from apples.platforms.platform import Preparation

#: File systems that every node of a cluster sees at the same place.
SHARED_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "panfs",
    "fuse.glusterfs",
    "orangefs",
)


class Requirements:
    """Requirements that each check of the hosts includes. kernels : to be compiled, None for none"""

    def __init__(self, warm_file: Path, *, package: bool = False) -> None:
        """Require this package, until a run of a user's program is added.

        Args:
            warm_file: List of the hosts on which kernels are compiled; made with the first host.
            package: Programs of users need the package, too.
        """
        self._always, self._package, self._files = package, True, tuple[str, ...]()
        self.kernels: Kernels | None = None
        self._warm_file = warm_file
        self._disk_bytes: dict[str, float] = {}
        self._optional: list[str] = []

    def add(self, preparation: Preparation) -> None:
        """Add the requirements of a run."""
        self._package = self._always or preparation.program_files is None
        self._files += tuple(preparation.program_files or ())
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
                needs_of_ranks(self._files, package=self._package),
                disk_bytes=self._disk_bytes,
                tokens=tokens,
                wished=tuple(self._optional),
            )
        finally:
            for path, token in tokens.items():
                with contextlib.suppress(OSError):
                    os.unlink(Path(path).with_name(token))


def needs_of_ranks(files: Sequence[str] = (), *, package: bool) -> Needs:
    """Return the needs of ranks: versions and files of the package if they need it, other files, shared memory."""
    beside = Path(sys.executable).parent
    own = (RANK_WRAPPER, beside / "mpiexec", beside / "hydra_pmi_proxy") if package else ()
    return Needs(
        versions=hostcheck.versions() if package else {},
        files=(*map(str, own), *files),
        shared_memory_bytes=SHARED_BYTES_FIXED + SHARED_BYTES_PER_RANK,
    )


def program_files(
    template: Application, settings: Mapping[str, str], choice: MpiChoice
) -> tuple[str, ...] | None:
    """Return the files of `Preparation.program_files`; raise `ConfigError` if a template cannot be rendered.

    A program or an MPI that is missing here is reported by the launch.

    Args:
        choice: the user's, which takes precedence over that of the application
    """
    if template.start is None or template.needs_package:
        return None
    start = template.start([template.short_size], Path("RUN_DIR"), template.short(settings))
    return files_on_hosts(start.command[0], choice.which or start.mpi)


def file_system(directory: Path) -> str:
    """Return the type of a directory's file system; empty if it is unknown."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = [(words[1], words[2]) for line in lines if len(words := line.split()) > 2]
    place = str(directory.absolute())
    over = [m for m in mounts if place == m[0] or place.startswith(m[0].rstrip("/") + "/")]
    return max(over, key=lambda m: len(m[0]), default=("", ""))[1]
