"""The processes of one launch over several hosts: sTATIONS, `mpiexec` here, and everything below them.

Each host's station is asked for first; when all are there, `mpiexec` starts, and each command it hands to its remote
shell goes to the station of that host. A status that has changed, output and the end come back the same way.
Nothing here decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from signal import Signals
from typing import Any

from apples.errors import LaunchError
from apples.launching.agentconnection import (
    HEARTBEAT_S,
    AgentConnection,
    Heartbeats,
    HostAddress,
    LivenessTimeouts,
    setup,
)
from apples.launching.command import with_parent_death
from apples.launching.launcher import LaunchRequest
from apples.launching.relays import write_all
from apples.launching.remotecommand import (
    Rendezvous,
    groups_of,
    hostfile,
    hosts_path,
    launch_environment,
    rank_environment,
)
from apples.launching.statuses import RankRecord, clear_statuses, parse_status
from apples.launching.steering import clear
from nws.base.files import write_whole

#: Seconds that what was told to end may take; killed processes the same again.
GONE_S = 8.0
#: Seconds that `mpiexec` may take to end when nothing is left of what it started.
LEFT_BEHIND_S = 2.0


class RemoteProcesses:
    """host agents, `mpiexec`, and its remote shells; as `apples.launching.engine.RunHandle` asks.

    records : what every rank has recorded so far, by rank.  found : what each station told
    """

    def __init__(
        self,
        request: LaunchRequest,
        places: Mapping[str, tuple[HostAddress, list[str]]],
        command: Callable[[Rendezvous], list[str]],
        silence: LivenessTimeouts,
    ) -> None:
        """Call every host; raises `LaunchError` when the operating system refuses.

        places : host → how it is reached, and the command that starts its station
        command : the whole command line of `mpiexec`, once it is known where hosts reach us
        """
        self.records: dict[int, RankRecord] = {}
        self._request, self._command, self._silence = request, command, silence
        self._run_dir = request.run_dir
        self._said_path = self._run_dir / "mpiexec.log"
        self._first_host = groups_of(request)[0][0]
        self._told: list[bytes] = []
        self._token = f".shared-{secrets.token_hex(8)}"
        self._mpiexec: subprocess.Popen[bytes] | None = None
        self._mpiexec_end = -1
        self._mpiexec_over = self._cut = False
        self._kill_mpiexec_at: float | None = None
        self._shells: dict[int, socket.socket] = {}
        self._orders: dict[int, tuple[str, socket.socket]] = {}
        self._listened = time.monotonic()
        self._outputs = {b"O": 2 if request.program_output_to_stderr else 1, b"E": 2}
        clear_statuses(self._run_dir)
        clear(str(self._run_dir))
        (self._run_dir / self._token).touch()
        hosts_path(self._run_dir).write_text(hostfile(request))
        sys.stdout.flush()
        self._poll = select.epoll()
        self.events = self._poll.fileno()
        self._door, self._door_name = _open_door()
        self._poll.register(self._door, select.EPOLLIN)
        self._channels: dict[str, AgentConnection] = {}
        self._beats = Heartbeats(self._channels)
        proxies = [host for host, _ in groups_of(request)]
        try:
            for host, (place, start) in places.items():
                channel = AgentConnection(place, start, self._run_dir / f"station-{host}.log")
                self._channels[host] = channel
                self._poll.register(channel.fd, select.EPOLLIN)
                own = {**rank_environment(place.interface, os.environ), **place.environment}
                watched = request.controller is not None and host == self._first_host
                count = proxies.count(host)
                channel.send(b"J", setup(self._run_dir, self._token, count, own, watched=watched))
        except OSError as error:
            self.close()
            raise LaunchError(f"cannot start {error.filename or 'ssh'}: {error.strerror}") from error
        self._beats.start()

    @property
    def wake_at(self) -> float | None:
        """When somebody's silence will have lasted too long."""
        moments = [self._silent_at(c) for c in self._channels.values() if not c.over]
        if self._kill_mpiexec_at is not None:
            moments.append(self._kill_mpiexec_at)
        return min(moments, default=None)

    def listen(self) -> tuple[list[RankRecord], bool]:
        """Records that are new since the last call, and whether all processes are gone."""
        changed: dict[int, RankRecord] = {}
        for fd, _ in self._poll.poll(0):
            if fd == self._door.fileno():
                self._admit()
            elif fd == self._mpiexec_end:
                self._on_mpiexec_end()
            elif fd in self._shells:
                self._take_order(fd)
            else:
                self._take_frames(fd, changed)
        self._mind_the_clock()
        if self._mpiexec is None and not self._cut and all(c.found for c in self._channels.values()):
            self._start()
        return list(changed.values()), self._over()

    def told(self) -> list[bytes]:
        """Lines of progress that are new since the last call."""
        told, self._told = self._told, []
        return told

    def offer(self, heights: str) -> None:
        """Let the run find new slabs: rank 0 looks for them on its host."""
        channel = self._channels[self._first_host]
        if not channel.over:
            channel.send(b"D", heights.encode())

    def troubles(self) -> Mapping[str, str]:
        """Hosts that were lost, and how."""
        return {host: c.lost for host, c in self._channels.items() if c.lost is not None}

    def forward(self, number: Signals) -> None:
        """Send a signal to every rank that runs, and to each that starts later."""
        self._tell(b"K", str(int(number)).encode())

    def cut(self) -> None:
        """Let go of every host: keepers kill their programs and sTATIONS end. Does nothing the second time."""
        if not self._cut:
            self._cut = True
            self._tell(b"C")

    def kill(self) -> None:
        """Kill everything, there and here."""
        self._cut = True
        self._tell(b"X")
        if self._mpiexec is not None:
            self._mpiexec.kill()

    def close(self) -> int:
        """Make sure that nothing is left, whatever went before; returns the exit code of `mpiexec`."""
        self.cut()
        deadline = time.monotonic() + GONE_S
        while not self.listen()[1] and (left_s := deadline - time.monotonic()) > 0:
            self._poll.poll(min(left_s, 0.2))
        if self._mpiexec is not None:
            self._mpiexec.kill()
        self._beats.stop()
        for channel in self._channels.values():
            self._poll.unregister(channel.fd)
            channel.close(1.0 if channel.gone else 0.0)
        for connection in [*self._shells.values(), *(c for _, c in self._orders.values())]:
            connection.close()
        self._door.close()
        self._poll.close()
        (self._run_dir / self._token).unlink(missing_ok=True)
        hosts_path(self._run_dir).unlink(missing_ok=True)
        if self._mpiexec is None:
            return 0
        code = self._mpiexec.wait()
        if self._mpiexec_end >= 0:
            os.close(self._mpiexec_end)
        return code

    def said(self) -> str:
        """What `mpiexec` itself printed; the file goes when it is empty."""
        if not self._said_path.exists():
            return ""
        text = self._said_path.read_text(encoding="utf-8", errors="replace")
        if not text:
            self._said_path.unlink()
        return text

    def _start(self) -> None:
        """All sTATIONS are there: start `mpiexec`."""
        found = [c.found or {} for c in self._channels.values()]
        here = os.getcwd()
        directory = here if all(f["directory"] for f in found) else str(self._run_dir.absolute())
        spread = Rendezvous(launcher=_own_address(found), directory=directory)
        with open(self._said_path, "wb") as said:
            self._mpiexec = subprocess.Popen(
                with_parent_death(self._command(spread), os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=launch_environment(self._request, os.environ, self._door_name),
                start_new_session=True,
            )
        self._mpiexec_end = os.pidfd_open(self._mpiexec.pid)
        self._poll.register(self._mpiexec_end, select.EPOLLIN)

    def _take_frames(self, fd: int, changed: dict[int, RankRecord]) -> None:
        channel = next((c for c in self._channels.values() if c.fd == fd), None)
        if channel is None:
            return
        for kind, payload in channel.receive():
            if kind == b"T":
                record = parse_status(payload)
                self.records[record.rank] = changed[record.rank] = record
                if not (channel.found or {})["shared"]:
                    # Where it is shared the keeper has written it, and may write it again before we have read this.
                    self._keep(f"status-{record.rank:05d}.json", payload)
            elif kind in self._outputs:
                write_all(self._outputs[kind], payload)
            elif kind == b"R":
                channel.found = json.loads(payload)
            elif kind == b"N":
                self._told.append(payload)
            elif kind == b"P":
                ended = json.loads(payload)
                self._answer(ended["id"], ended["code"])
            elif kind == b"F":
                name, _, content = payload.partition(b"\n")
                self._keep(os.path.basename(name.decode()), content)
            elif kind == b"W":
                channel.lose(f"cannot take part: {payload.decode(errors='replace')}")
            elif kind == b"G":
                channel.gone = True
        if channel.over:
            # Its end of file stays readable for ever.
            self._poll.modify(fd, 0)
            for number in [n for n, (host, _) in self._orders.items() if host == channel.host]:
                self._answer(number, 255)

    def _keep(self, name: str, content: bytes) -> None:
        """A file of a run directory that is not ours, beside those that are."""
        write_whole(self._run_dir / name, content)

    def _admit(self) -> None:
        connection, _ = self._door.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != os.getuid():
            connection.close()
            return
        self._shells[connection.fileno()] = connection
        self._poll.register(connection, select.EPOLLIN)

    def _take_order(self, fd: int) -> None:
        """One line from a remote shell of `mpiexec`: host and command. It waits for the answer."""
        connection = self._shells.pop(fd)
        self._poll.unregister(fd)
        line = b""
        while not line.endswith(b"\n") and (data := connection.recv(1 << 16)):
            line += data
        order: dict[str, Any] = json.loads(line) if line else {}
        channel = self._channels.get(order.get("host", ""))
        if channel is None or channel.over:
            connection.close()
            return
        number = len(self._orders)
        self._orders[number] = (channel.host, connection)
        # A remote shell would have joined the words and read them again.
        command = shlex.split(" ".join(order["command"]))
        channel.send(b"S", json.dumps({"id": number, "command": command}).encode())

    def _answer(self, number: int, code: int) -> None:
        with contextlib.suppress(OSError):
            self._orders[number][1].sendall(str(code & 0xFF).encode())
        self._orders[number][1].close()

    def _on_mpiexec_end(self) -> None:
        self._poll.unregister(self._mpiexec_end)
        self._mpiexec_over = True
        # What it has not ended it never will.
        self.cut()

    def _mind_the_clock(self) -> None:
        now = time.monotonic()
        if now - self._listened > 2 * HEARTBEAT_S:
            # It was us who did not listen: stopped, or held up by whoever reads our output.
            for channel in self._channels.values():
                channel.heard = now
        self._listened = now
        for channel in self._channels.values():
            if not channel.over and now >= self._silent_at(channel):
                ready = channel.found is not None
                after = "was not heard of" if ready else "did not answer"
                channel.lose(
                    f"{after} for {now - channel.heard:.0f} s; it is off, frozen, or its link is cut"
                )
        if self._kill_mpiexec_at is not None and now >= self._kill_mpiexec_at and self._mpiexec is not None:
            self._mpiexec.kill()

    def _silent_at(self, channel: AgentConnection) -> float:
        limit_s = self._silence.connect_s if channel.found is None else self._silence.lost_s
        return channel.heard + limit_s

    def _over(self) -> bool:
        if not all(c.over for c in self._channels.values()):
            return False
        if self._mpiexec is None or self._mpiexec_over:
            return True
        if self._kill_mpiexec_at is None:
            self._kill_mpiexec_at = time.monotonic() + LEFT_BEHIND_S
        return False

    def _tell(self, kind: bytes, payload: bytes = b"") -> None:
        for channel in self._channels.values():
            if not channel.over:
                channel.send(kind, payload)


def _open_door() -> tuple[socket.socket, str]:
    """Socket at which our remote shells ask, and its name, which nobody guesses."""
    name = f"apples-{secrets.token_hex(16)}"
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    door.bind("\0" + name)
    door.listen(128)
    return door, name


def _own_address(found: list[dict[str, Any]]) -> str:
    """Address of this machine that the hosts have seen us come from, if we have it; else the loopback."""
    for one in found:
        address = one["launcher"]
        if address is not None:
            with contextlib.suppress(OSError), socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
                return str(address)
    return "127.0.0.1"


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
