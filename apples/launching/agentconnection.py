"""The launcher's end of each host's station: started, listened to, spoken to, and certainly gone. Decides nothing.

A station is reached over ssh, or started here for this machine. Both sides beat, so that silence means something: a
station that hears nothing ends its host's part of the run, and here a host that says nothing counts as lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apples.launching.frames import Unframer, frame
from apples.remote.ssh import meaning

HOST_AGENT = Path(__file__).with_name("hostagent.py")

#: Seconds between beats, both ways.
HEARTBEAT_S = 2.0
#: Seconds a station bears without a beat: a launcher that is stopped for so long counts as lost, too.
AGENT_TIMEOUT_S = 30.0
#: Seconds a full pipe may stay full before its host counts as lost.
STUCK_S = 5.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessTimeouts:
    """How long a host may say nothing, in seconds: until its station is there, and from then on."""

    connect_s: float = 20.0
    lost_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """A host as the launcher reaches it.

    address : what ssh is told, None for this machine
    interface : network interface that its ranks use, None for the MPI library's own choice
    """

    host: str
    address: str | None = None
    interface: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class AgentConnection:
    """One station.

    found : what it told when it was ready, None before.  gone : it said that nothing is left there
    lost : why it will not be heard of again, None while it may be
    """

    def __init__(self, place: HostAddress, command: Sequence[str], log: Path) -> None:
        """Start it; raises `OSError` where the command cannot be started."""
        self.place, self.host = place, place.host
        self.found: dict[str, Any] | None = None
        self.gone = False
        self.lost: str | None = None
        self.heard = time.monotonic()
        self._log = log
        self._lock = threading.Lock()
        self._unframer = Unframer(preamble=True)
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self.fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self.fd, False)

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected of it."""
        return self.gone or self.lost is not None

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Send a frame; a station that does not take it in time is lost."""
        with self._lock:
            data = memoryview(frame(kind, payload))
            try:
                while data:
                    try:
                        data = data[os.write(self._in, data) :]
                    except BlockingIOError:
                        poll = select.poll()
                        poll.register(self._in, select.POLLOUT)
                        if not poll.poll(1000.0 * STUCK_S):
                            self.lost = self.lost or "takes no more orders; it is frozen, or its link is cut"
                            return
            except OSError:
                # Its end will be read from its output, with the reason.
                return

    def beat(self) -> None:
        """Send a beat, if there is room for it."""
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(OSError):
                    os.write(self._in, frame(b"B"))
            finally:
                self._lock.release()

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Frames that have come; at the end of its output it is lost, unless it had said that nothing is left."""
        frames: list[tuple[bytes, bytes]] = []
        try:
            while data := os.read(self.fd, _CHUNK):
                self.heard = time.monotonic()
                frames += self._unframer.feed(data)
        except BlockingIOError:
            return frames
        except ValueError:
            noise = self._unframer.noise.decode(errors="replace").strip().splitlines()
            first = f": {noise[0]}" if noise else ""
            self.lose(
                f"does not answer as a station does{first}; its login shell must print nothing without a terminal"
            )
            return frames
        if not any(kind == b"G" for kind, _ in frames) and not self.gone:
            self.lose(self._why_ended())
        return frames

    def lose(self, why: str) -> None:
        """Count it as lost; the first reason is kept."""
        self.lost = self.lost or why
        self._process.kill()

    def fileno(self) -> int:
        """Its output, for polling."""
        return self.fd

    def said(self) -> str:
        """What ssh, the station and the proxies there printed to stderr."""
        try:
            return self._log.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""

    def close(self, within_s: float) -> None:
        """Close both ends; the local process is killed when it has not ended in time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock, contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._log.unlink(missing_ok=True)

    def _why_ended(self) -> str:
        try:
            code = self._process.wait(STUCK_S)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        address = self.place.address or self.host
        if self.found is not None:
            said = self.said().splitlines()
            return "was lost: its connection ended" + (f" ({said[-1]})" if said else "")
        if self.place.address is None:
            return f"could not start its station: {self.said() or f'it ended with code {code}'}"
        return meaning(address, code, self.said(), sys.executable)


class Heartbeats(threading.Thread):
    """Beats to all sTATIONS, also while the launcher waits for whoever reads its output."""

    def __init__(self, channels: Mapping[str, AgentConnection]) -> None:
        super().__init__(name="beats", daemon=True)
        self._channels = channels
        self._ended = threading.Event()

    def run(self) -> None:
        """Until `stop`."""
        while not self._ended.wait(HEARTBEAT_S):
            for channel in self._channels.values():
                channel.beat()

    def stop(self) -> None:
        """End, and wait for the end."""
        self._ended.set()
        if self.is_alive():
            self.join()


def setup(
    run_dir: Path, token: str, proxies: int, environment: Mapping[str, str], *, watched: bool = False
) -> bytes:
    """What a station is told first. watched : rank 0 is there and tells how the run goes."""
    return json.dumps(
        {
            "run_dir": str(run_dir.absolute()),
            "token": token,
            "directory": os.getcwd(),
            "proxies": proxies,
            "watched": watched,
            "environment": dict(environment),
            "beat_s": HEARTBEAT_S,
            "silence_s": AGENT_TIMEOUT_S,
        }
    ).encode()
