"""The start of a user's program beside its ranks: rendered files, and the commands to run once before and after.

Files are written as a whole. A command dies with this process. Nothing here starts ranks.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from apples.errors import ConfigError, LaunchError, NotExecutable, ProgramNotFound
from apples.launching.command import with_parent_death
from apples.launching.failedoutput import described_output
from apples.model.launchrequest import Notify
from apples.model.template import Deployment
from nws.base import scripts
from nws.base.files import write_whole
from nws.base.scratch import ScratchDirectory

#: Start of the names of directories for short runs.
SCRATCH_PREFIX = ".apples-run-"
#: Bytes and files of the user's directory that are copied for a short run; the others are linked.
_MOST_BYTES, _MOST_FILES = 256 << 20, 10_000
#: Seconds that a command may take to end after an interrupt, before it is killed.
_END_S = 5.0


def deploy(deployment: Deployment, notify: Notify) -> None:
    """Write the files and run the `prepare` commands; raise `ConfigError` or `LaunchError`."""
    if deployment.directory is not None and not deployment.directory.is_dir():
        raise ConfigError(f"{deployment.directory}: the program is to start there, but there is no directory")
    for path, text in deployment.files.items():
        root = (deployment.directory or path.parent).resolve()
        try:
            # a symbolic link would lead the text to another place
            if not path.parent.resolve().is_relative_to(root):
                raise LaunchError(f"{path}: leads out of {root} by a link; nothing is written there")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise LaunchError(f"{path}: cannot be written: {error.strerror}") from error
    run_commands("prepare", deployment.prepare, deployment, notify)


def run_commands(
    what: str, commands: Sequence[Sequence[str]], deployment: Deployment, notify: Notify
) -> None:
    """Run commands one after the other in the deployment's directory; raise `LaunchError` at the first that fails.

    what : their key in the application file, for messages
    """
    # Commands before and after a run see the variables of its ranks.
    environment = {**os.environ, **deployment.environment}
    for command in commands:
        notify(f"{what}: {shlex.join(command)}")
        # The parent-death wrapper executes a path; it does not search PATH.
        program = shutil.which(command[0], path=environment.get("PATH"))
        if program is None:
            raise ProgramNotFound(
                f"{what}: program {command[0]!r} is not found; give its path, or install it"
            )
        if (fault := scripts.fault(program)) is not None:
            raise NotExecutable(f"{what}: program {command[0]!r} cannot be executed: {fault}")
        # A file, not a pipe: a command may leave a child behind that holds its output open.
        with tempfile.NamedTemporaryFile() as output:
            code = _run([program, *command[1:]], deployment.directory, environment, output)
            if code != 0:
                how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
                shown = described_output(f"{what}-{os.path.basename(command[0])}", Path(output.name))
                raise LaunchError(f"{what}: {shlex.join(command)} {how}{shown}")


def _run(
    command: list[str], directory: Path | None, environment: Mapping[str, str], output: IO[bytes]
) -> int:
    """Return the exit code of a command; its whole process group is ended if this call is interrupted."""
    try:
        process = subprocess.Popen(
            # The kernel ends it if this process is killed.
            with_parent_death(command, os.getpid()),
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise NotExecutable(f"program {command[0]!r} cannot be executed: {error.strerror}") from error
    with process:
        try:
            return process.wait()
        except BaseException:
            _end_group(process)
            raise


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            # The group, because a shell that is killed leaves its commands.
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return


@contextlib.contextmanager
def scratch_copy(directory: Path, parent: Path, written: Sequence[str]) -> Iterator[Path]:
    """Yield a copy of the user's directory for a short run, which must not write into the original.

    Files beyond `_MOST_BYTES` in total, or after `_MOST_FILES`, are links to the originals.

    Args:
        directory: the user's.
        parent: where it is made: the user's directory where other hosts have to see it, too.
        written: relative paths of files that are rendered, which are not copied.
    """
    with ScratchDirectory(SCRATCH_PREFIX, parent) as target:
        _copy(directory, target, {directory / name for name in written}, [_MOST_BYTES, _MOST_FILES])
        yield target


def _copy(directory: Path, target: Path, without: set[Path], budget: list[int]) -> None:
    """Copy a directory's entries into `target`. budget : bytes and files that may still be copied"""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        source, copy = Path(entry.path), target / entry.name
        if source in without or entry.name.startswith(SCRATCH_PREFIX):
            continue
        budget[1] -= 1
        if entry.is_dir(follow_symlinks=False) and budget[1] > 0:
            copy.mkdir()
            _copy(source, copy, without, budget)
            continue
        size = entry.stat().st_size if entry.is_file() else 0
        if not entry.is_file() or size > budget[0] or budget[1] <= 0:
            copy.symlink_to(source.absolute())
            continue
        budget[0] -= size
        shutil.copy2(source, copy)
