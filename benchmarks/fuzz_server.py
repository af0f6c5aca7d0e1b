"""Thousands of malformed requests to a real server process: no response may be 5xx, and memory may not grow.

    python benchmarks/fuzz_server.py [--requests 10000] [--seed 1]

The requests (`fuzz_requests.py`) are made from the server's own OpenAPI document; each is reproducible by its seed and
number. Prints responses by status and by kind of request, every 5xx with the request that caused it, and the server's
memory before and after each quarter.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from fuzz_requests import Case, Fuzzer

#: Seconds in which the health must be answered after all requests.
_HEALTH_S = 1.0


@dataclass(slots=True)
class Outcome:
    """Results of many requests. `statuses`: kind and response → count. `failures`: 5xx with their requests."""

    statuses: collections.Counter[tuple[str, str]]
    failures: list[tuple[int, str, bytes]]


def attack(
    address: tuple[str, int], fuzzer: Fuzzer, count: int, *, first: int = 0, patience_s: float = 30.0
) -> Outcome:
    """Send that many requests, each on a connection of its own, and record every response.

    first: number of the first request
    patience_s: a response that is due and later than this is recorded as ``silence``
    """
    outcome = Outcome(collections.Counter(), [])
    for number, case in enumerate(fuzzer.cases(count), first):
        answers = list(_answers(address, case, patience_s))
        for status in answers or ["closed" if not case.whole else "silence"]:
            outcome.statuses[case.kind, status] += 1
            if status.startswith("5") or status == "silence":
                outcome.failures.append((number, status, case.raw[:300]))
    return outcome


def _answers(address: tuple[str, int], case: Case, patience_s: float) -> Iterator[str]:
    """Yield the statuses of the responses to a request, the first of them where more may be due."""
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=patience_s) as peer:
        # the server may send its response and close before it has read all
        with contextlib.suppress(OSError):
            peer.sendall(case.raw)
        if not case.whole:
            peer.settimeout(0.05)
        head = b""
        while b"\r\n\r\n" not in head:
            more = peer.recv(65536)
            if not more:
                break
            head += more
            if head.startswith(b"HTTP/1.1 100"):
                head = head.partition(b"\r\n\r\n")[2]
        if head.startswith(b"HTTP/1.1 "):
            yield head[9:12].decode("ascii", "replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "weather.yaml"
        settings.write_text(
            "listen: 127.0.0.1:0\nstore: weather.db\nlimits: {requests_per_minute: 100000000}\n"
        )
        command = [sys.executable, "-m", "nws.cli", "server", "--config", str(settings)]
        log = Path(folder) / "log"
        with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as server:
            try:
                failures = _run(_address(server, log), options.requests, options.seed)
            finally:
                server.terminate()
        print(f"{log.read_text().count('Traceback')} tracebacks in the server's log")
        if "Traceback" in log.read_text() or server.returncode:
            failures = failures or 1
            print(log.read_text()[-20_000:])
    sys.exit(1 if failures or server.returncode else 0)


def _address(server: subprocess.Popen[bytes], log: Path) -> tuple[str, int]:
    """Return the address of a server that was just started."""
    while server.poll() is None:
        found = re.search(r" at http://([\d.]+):(\d+)", log.read_text())
        if found is not None:
            return found[1], int(found[2])
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text()}")


def _run(address: tuple[str, int], count: int, seed: int) -> int:
    description = orjson.loads(_get(address, "/openapi.json"))
    # memory allocated once, such as compiled code and few series, is not growth
    warm = attack(address, Fuzzer(description, seed + 1), max(count // 5, 500))
    fuzzer, outcome = Fuzzer(description, seed), Outcome(collections.Counter(), warm.failures)
    memory = [_memory(address)]
    start = time.perf_counter()
    for part in range(4):
        found = attack(address, fuzzer, count // 4, first=part * (count // 4))
        outcome.statuses.update(found.statuses)
        outcome.failures.extend(found.failures)
        memory.append(_memory(address))
    seconds = time.perf_counter() - start
    totals: collections.Counter[str] = collections.Counter()
    for (_, status), n in outcome.statuses.items():
        totals[status] += n
    print(f"{count} requests in {seconds:.0f} s, seed {seed}")
    print("answers: " + ", ".join(f"{n} × {status}" for status, n in sorted(totals.items())))
    for kind in sorted({k for k, _ in outcome.statuses}):
        told = ", ".join(f"{n} × {s}" for (k, s), n in sorted(outcome.statuses.items()) if k == kind)
        print(f"  {kind:12s} {told}")
    print("memory before, and after each quarter: " + ", ".join(f"{m / 1e6:.1f} MB" for m in memory))
    start = time.perf_counter()
    health = _get(address, "/healthz").decode()
    answered_s = time.perf_counter() - start
    print(f"health afterwards, in {answered_s:.3f} s: {health}")
    for number, status, raw in outcome.failures[:20]:
        print(f"FAILURE {status} by request {number} of seed {seed}: {raw!r}")
    print(f"{len(outcome.failures)} failures")
    return len(outcome.failures) + (answered_s > _HEALTH_S or '"ok"' not in health)


def _get(address: tuple[str, int], path: str) -> bytes:
    with socket.create_connection(address, timeout=60) as peer:
        peer.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        return b"".join(iter(lambda: peer.recv(65536), b"")).partition(b"\r\n\r\n")[2]


def _memory(address: tuple[str, int]) -> float:
    found = re.search(rb"^process_resident_memory_bytes (\S+)", _get(address, "/metrics"), re.MULTILINE)
    assert found is not None
    return float(found[1])


if __name__ == "__main__":
    main()
