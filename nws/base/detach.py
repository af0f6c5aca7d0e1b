"""Services in the background: `--detach` returns when a service is ready, `--stop` ends it.

The command forks. The child leaves the terminal, writes to a log file and runs as it would in the foreground. It
reports that it is ready by systemd's protocol: the datagram `READY=1` on the socket in `$NOTIFY_SOCKET`. The same
services therefore work with `Type=notify` of systemd.

For each service and state directory at most one process is in the background. It holds a lock on
`$APPLES_STATE/NAME.HOST.pid` while it lives, so that a stale file never names another process.
"""

import functools
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

import click

from nws.base.errors import ConfigError, StoreError, WeatherError
from nws.base.files import make_private, put_in_place
from nws.base.lock import FileLock, LockHeld
from nws.base.notes import note
from nws.base.paths import local_host, state_dir

_Function = Callable[..., Any]

#: A log file longer than this is moved to NAME.log.1 before the service starts, bytes.
_LONG_LOG = 1 << 20
#: Pause between looks at the child and its log while it starts, seconds.
_LOOK_S = 0.05
#: Time from SIGTERM to the message that the service still runs, seconds.
_STOP_S = 60.0


def notify(state: str) -> None:
    """Send a state such as `READY=1` to the process that waits for it; nothing happens if none does.

    A second line `STATUS=...` describes the service: where it listens.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        # A leading @ marks a socket in the abstract name space.
        to.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)


def service(
    name: Callable[[dict[str, Any]], str],
    *,
    parts: Callable[[dict[str, Any]], int] = lambda options: 1,
    patience_s: float | None = None,
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds `--detach` and `--stop` to a click command that serves until a signal.

    Args:
        name: Return the service's name, such as `nws-server`, from the command's options.
        parts: Return the number of processes that report `READY=1`.
        patience_s: Return after this time even if the service is not ready; None to wait for it.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def run(*arguments: Any, detach: bool, stop: bool, **options: Any) -> Any:
            if stop:
                return stop_service(name(options))
            if detach:
                ready = start_service(name(options), parts=parts(options), patience_s=patience_s)
                if ready is not None:
                    return ready
            return function(*arguments, **options)

        stop_option = click.option(
            "--stop",
            is_flag=True,
            is_eager=True,
            callback=_need_nothing_else,
            help="Stop the service started with --detach.",
        )
        detach_option = click.option(
            "--detach", is_flag=True, help="Run in the background; return when the service is ready."
        )
        return detach_option(stop_option(run))

    return decorate


def _need_nothing_else(context: click.Context, parameter: click.Parameter, stop: bool) -> bool:
    """Let options be missing that are required to start the service. Return the flag."""
    context.resilient_parsing = context.resilient_parsing or stop
    return stop


def start_service(name: str, *, parts: int = 1, patience_s: float | None = None) -> int | None:
    """Fork. Return None in the child, which is to serve; in the parent the exit code once the child is ready.

    The parent prints the child's log lines while it waits. If the child ends first, its exit code is returned.
    Call this while the process has one thread. Raises `ConfigError` if the service already runs in the background.
    """
    path = _pid_file(name)
    lock = _lock(path)
    if lock is None:
        raise ConfigError(
            f"{name} already runs in the background (process {_read_pid(path)}); stop it with --stop, or set "
            "APPLES_STATE to another directory"
        )
    log = path.with_suffix(".log")
    written = _open_log(log)
    start = written.tell()
    directory = Path(tempfile.mkdtemp(prefix="apples-detach."))
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(str(directory / "ready"))
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        inbox.close()
        _become_service(lock, written, str(directory / "ready"))
        return None
    # The child keeps the lock.
    lock.release()
    written.close()
    try:
        with inbox, log.open("rb") as lines:
            lines.seek(start)
            return _wait(name, child, inbox, lines, parts, patience_s)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def stop_service(name: str) -> int:
    """Send SIGTERM to a service in the background and wait for its end. Return the exit code: 1 if none runs."""
    path = _pid_file(name)
    lock = _lock(path) if path.exists() else None
    if lock is not None or not path.exists():
        if lock is not None:
            lock.release()
        note(f"{name}: not running in the background with state in {path.parent}")
        return 1
    pid = _read_pid(path)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        watch = select.poll()
        watch.register(descriptor, select.POLLIN)
        if not watch.poll(_STOP_S * 1e3):
            raise WeatherError(
                f"{name}: process {pid} has not ended {_STOP_S:g} s after SIGTERM; see its log"
            )
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ConfigError(f"{name}: process {pid} belongs to another user") from None
    finally:
        os.close(descriptor)
    note(f"{name}: stopped (process {pid})")
    return 0


def _become_service(lock: FileLock, log: IO[bytes], ready: str) -> None:
    """In the child: leave the terminal, write to the log, and store the process id in the locked file."""
    os.setsid()
    lock.describe(str(os.getpid()))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        os.dup2(log.fileno(), descriptor)
    log.close()
    os.environ["NOTIFY_SOCKET"] = ready


def _wait(
    name: str, child: int, inbox: socket.socket, log: IO[bytes], parts: int, patience_s: float | None
) -> int:
    """Return 0 when all parts of the child are ready, or its exit code if it ends first."""
    inbox.settimeout(_LOOK_S)
    deadline = None if patience_s is None else time.monotonic() + patience_s
    status = "ready"
    try:
        while parts > 0:
            try:
                ended, code = os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                # SIGCHLD is ignored, so the kernel has reaped it: the code is unknown.
                ended, code = child, 0
            _copy(log)
            if ended:
                return _exit_code(code)
            if deadline is not None and time.monotonic() > deadline:
                status = "started, but not ready yet"
                break
            with suppress(TimeoutError):
                lines = inbox.recv(4096).decode(errors="replace").splitlines()
                if "READY=1" in lines:
                    parts -= 1
                    status = next((one[7:] for one in lines if one.startswith("STATUS=")), status)
    except BaseException:
        # Interrupted: a service that the user gave up must not go on in the background.
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        raise
    _copy(log)
    note(f"{name}: {status}; process {child}, log {log.name}; --stop ends it")
    return 0


def _exit_code(status: int) -> int:
    """Return a wait status as a shell's exit code; a service that ends before it is ready is an error."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code or 1


def _copy(log: IO[bytes]) -> None:
    """Print the lines that the child has written since the last call."""
    text = log.read()
    if text:
        sys.stderr.write(text.decode(errors="replace"))
        sys.stderr.flush()


def _pid_file(name: str) -> Path:
    # Hosts may share a home directory.
    return state_dir() / f"{name}.{local_host()}.pid"


def _lock(path: Path) -> FileLock | None:
    """Return the held lock of a pid file, None if a service has it. Raises `StoreError`."""
    try:
        make_private(path.parent)
        # empty until the service writes its process id
        return FileLock(path, mode=0o644, description="")
    except LockHeld:
        return None
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror}; set APPLES_STATE") from error


def _read_pid(path: Path) -> int:
    """Return the process id in a locked pid file."""
    deadline = time.monotonic() + 1.0
    while not (text := path.read_text(encoding="ascii").strip()):
        # The child takes the lock with the fork and writes its number right after.
        if time.monotonic() > deadline:
            raise StoreError(f"{path}: holds no process id; find the process with `fuser {path}`")
        time.sleep(0.01)
    return int(text)


def open_log(path: str | os.PathLike[str], longest_bytes: int) -> BinaryIO:
    """Return a log file, open for appending at its end; raises `OSError`.

    A log longer than `longest_bytes` is renamed to ``NAME.1`` first, over an older one.
    """
    name = os.fspath(path)
    try:
        if os.stat(name).st_size > longest_bytes:
            put_in_place(name, f"{name}.1", sync=False)
    except FileNotFoundError:
        # the first log, or another process has just renamed it
        pass
    log = open(name, "a+b", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115 - the caller closes it
    log.seek(0, os.SEEK_END)
    return log


def _open_log(path: Path) -> IO[bytes]:
    """Return the log file, open for appending. Raises `StoreError`."""
    try:
        return open_log(path, _LONG_LOG)
    except OSError as error:
        raise StoreError(f"{path}: the log cannot be written: {error.strerror}") from error
