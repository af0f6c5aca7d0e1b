"""Accuracy of CPU shares read from Prometheus, beside our own sensor and the share of a real process.

    python benchmarks/prometheus_truth.py [--repeats 3] [--scrape 5] [--settle 15]

Starts a node_exporter and a Prometheus of its own, on ports the system chooses. Each scene starts spinners, each a
session of its own, lets them run for `--settle` seconds and reads both. Then it runs a busy process for 2 s, twice,
whose CPU time over wall time is the truth. Prints every scene and the mean absolute error of both.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from nws.base.errors import ProbeError
from nws.sensors.cpu import CpuSensor
from nws.sources.prometheus import PrometheusSettings, PrometheusSource

_SPINNER = """
import os, sys
os.nice(int(sys.argv[1]))
while True:
    pass
"""
_NEWCOMER = """
import sys, time
start, cpu = time.perf_counter(), time.process_time()
while (wall := time.perf_counter() - start) < float(sys.argv[1]):
    pass
print((time.process_time() - cpu) / wall)
"""
_SECONDS = "2"
#: Nice values of the spinners of each scene.
_SCENES: dict[str, tuple[int, ...]] = {
    "nothing": (),
    "1 spinner": (0,),
    "2 spinners": (0, 0),
    "4 spinners": (0, 0, 0, 0),
    "2 spinners, nice 19": (19, 19),
    "2 spinners + 2 at nice 19": (0, 0, 19, 19),
}


@contextmanager
def serving(command: Sequence[str], directory: Path) -> Iterator[str]:
    """Run a server until the end of the block; yields its address."""
    process = subprocess.Popen(command, cwd=directory, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end and process.poll() is None:
            listening = psutil.Process(process.pid).net_connections("tcp")
            ports = [c.laddr.port for c in listening if c.status == "LISTEN"]
            if ports:
                yield f"127.0.0.1:{ports[0]}"
                return
            time.sleep(0.05)
        raise SystemExit(f"{command[0]} does not listen; run it by hand: {' '.join(command)}")
    finally:
        process.kill()
        process.wait()


@contextmanager
def spinning(nices: Sequence[int]) -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", _SPINNER, str(nice)], start_new_session=True)
        for nice in nices
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def newcomer() -> float:
    done = subprocess.run(
        [sys.executable, "-c", _NEWCOMER, _SECONDS],
        capture_output=True,
        text=True,
        start_new_session=True,
        check=True,
    )
    return float(done.stdout)


def play(nices: Sequence[int], settle_s: float, source: PrometheusSource, own: CpuSensor) -> list[float]:
    """Return the value of cpu.new from Prometheus, the reading of our own sensor, and the truth."""
    with spinning(nices):
        # our own sensor uses as long a window as sensors with a period of 10 s
        time.sleep(max(settle_s - 10.0, 0.0))
        own.measure()
        time.sleep(min(settle_s, 10.0))
        theirs = {m.series.resource.value: m.value for m in source.read(time.time())}
        ours = own.measure()[0].value
        return [theirs["cpu.new"], ours, statistics.mean(newcomer() for _ in range(2))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scrape", type=int, default=5, help="seconds from one scrape to the next")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds that spinners run before")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the scenes")
    options = parser.parse_args()
    for program in ("prometheus", "prometheus-node-exporter"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; on Debian: apt install {program}")
    scenes = list(_SCENES) * options.repeats
    random.Random(options.seed).shuffle(scenes)
    errors: dict[str, list[float]] = {"prometheus": [], "own sensor": []}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prometheus-truth-")))
        exporter = ["prometheus-node-exporter", "--web.listen-address=127.0.0.1:0", "--log.level=error"]
        instance = stack.enter_context(serving(exporter, directory))
        (directory / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {options.scrape}s, scrape_timeout: {options.scrape}s}}\n"
            f'scrape_configs: [{{job_name: node, static_configs: [{{targets: ["{instance}"]}}]}}]\n'
        )
        server = ["prometheus", "--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:0"]
        address = stack.enter_context(serving([*server, "--storage.tsdb.path=data"], directory))
        settings = PrometheusSettings(url=f"http://{address}", every_s=2.0 * options.scrape)
        source = stack.enter_context(PrometheusSource(settings))
        time.sleep(3 * options.scrape)
        own = CpuSensor(host="here")
        print(f"{'scene':28}{'prometheus':>12}{'own sensor':>12}{'real':>8}")
        for name in scenes:
            try:
                theirs, ours, real = play(_SCENES[name], options.settle, source, own)
            except ProbeError as error:
                raise SystemExit(str(error)) from None
            errors["prometheus"].append(theirs - real)
            errors["own sensor"].append(ours - real)
            print(f"{name:28}{theirs:12.3f}{ours:12.3f}{real:8.3f}", flush=True)
    for name, found in errors.items():
        sizes = [abs(e) for e in found]
        print(
            f"{name}: mean absolute error {statistics.mean(sizes):.3f} CPU, mean error "
            f"{statistics.mean(found):+.3f}, worst {max(sizes):.3f}, {len(found)} measurements"
        )


if __name__ == "__main__":
    main()
