"""Cost of a sensor on its host: CPU seconds of the daemon and its children, and resident memory, in steady state.

    python benchmarks/sensor_overhead.py [--seconds 300] [--hosts 4] [--server URL]

Starts a weather service of its own (or uses the given one) and one sensor for each host, on addresses of the loopback
interface. All sensors are in one clique, with the periods of the service. After a warm-up of --settle seconds it reads
the CPU time and the memory of each sensor from /proc, once a second. Prints per sensor CPU in percent of one core,
median and highest resident memory, and the final output of the first sensor. The loopback is the most expensive network
for a probe: all of it is CPU.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NWS = [sys.executable, "-m", "nws.cli"]


@dataclass(slots=True, kw_only=True)
class Watched:
    """One sensor. `resident`: MB, once a second."""

    host: str
    process: subprocess.Popen[str]
    before_s: float = 0.0
    resident: list[float] = field(default_factory=list)

    def cpu_s(self) -> float:
        """Return user and system time of the process and of its children that have ended."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(x) for x in fields[11:15]) * _TICK_S

    def look(self) -> None:
        """Record its resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        self.resident.append(pages * _PAGE / 1e6)


def start_server(stack: ExitStack, state: str, periods: float) -> str:
    config = Path(state) / "weather.yaml"
    every = f"{{cpu: {periods}s, memory: {periods}s, deliver: {periods}s}}"
    config.write_text(f"grid: overhead\nevery: {every}\n")
    process = subprocess.Popen(
        [*_NWS, "server", "--config", str(config), "--listen", "127.0.0.1:0"],
        env=os.environ | {"APPLES_STATE": state},
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(end, process)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://[0-9.]+:\d+", line):
            return found[0]
    sys.exit("the service did not start")


def end(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="length of the measurement")
    parser.add_argument("--settle", type=float, default=30.0, help="warm-up before it")
    parser.add_argument("--hosts", type=int, default=4, help="sensors, all in one clique")
    parser.add_argument("--period", type=float, default=10.0, help="period of CPU, memory and delivery, s")
    parser.add_argument("--server", help="service to use instead of one of our own")
    options = parser.parse_args()
    with ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        url = options.server or start_server(stack, state, options.period)
        watched = []
        for number in range(options.hosts):
            host, address = f"overhead{number}", f"127.0.1.{number + 1}"
            command = [*_NWS, "sensor", "--server", url, "--host", host, "--address", address]
            environ = os.environ | {"APPLES_STATE": state}
            process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
            stack.callback(process.kill)
            watched.append(Watched(host=host, process=process))
        time.sleep(options.settle)
        begun = time.monotonic()
        for one in watched:
            one.before_s = one.cpu_s()
        while time.monotonic() - begun < options.seconds:
            time.sleep(1.0)
            for one in watched:
                one.look()
        took = time.monotonic() - begun
        spent = [one.cpu_s() - one.before_s for one in watched]
        threads = len(list(Path("/proc").glob("[0-9]*/task/[0-9]*")))
        print(f"{options.hosts} sensors for {took:.0f} s; {threads} threads on this machine")
        print(f"{'host':12}{'CPU s':>8}{'% of a core':>13}{'RSS MB median':>15}{'highest':>9}")
        for one, cpu in zip(watched, spent, strict=True):
            median, most = statistics.median(one.resident), max(one.resident)
            print(f"{one.host:12}{cpu:8.2f}{100 * cpu / took:13.2f}{median:15.1f}{most:9.1f}")
        print(f"median: {100 * statistics.median(spent) / took:.2f} % of a core")
        print(*(f"\n{one.host}:\n{end(one.process)}" for one in watched[:1]), sep="")
        for one in watched[1:]:
            end(one.process)


if __name__ == "__main__":
    main()
