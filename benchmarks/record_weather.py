"""Record the readings of our own sensors on this machine under a real mixed load, for `nws score`.

    python benchmarks/record_weather.py OUT.csv.gz [--minutes 45] [--seed 1] [--busy 1.0] [--every 10]

`nws measure` takes CPU, memory and loopback latency and bandwidth at the period; `mixed_load.py` beside this file is
the load. On Ctrl-C it ends early and keeps the readings so far. The host is called `recorded` in the file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mixed_load import Load, dies_with_us, plan, stop_on_sigterm

from nws.base.files import write_whole

_HOST = "recorded"


def record(minutes: float, every_s: float, load: Load, state: Path) -> str:
    """Measure for that many minutes while the load runs; return the last output of the measuring command."""
    nws = Path(sys.executable).with_name("nws")
    log = state / "measure.log"
    with log.open("wb") as sink:
        sensors = subprocess.Popen(
            [nws, "measure", "--every", f"{every_s:g}", "--for", f"{60 * minutes:g}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=sink,
            start_new_session=True,
            preexec_fn=dies_with_us(os.getpid()),
            env=os.environ | {"APPLES_STATE": str(state)},
        )
        try:
            with load:
                while sensors.poll() is None:
                    load.tend()
                    time.sleep(0.5)
        except KeyboardInterrupt:
            print("interrupted: keeping what has been measured", file=sys.stderr)
        finally:
            if sensors.poll() is None:
                sensors.send_signal(signal.SIGINT)
            sensors.wait()
    lines = log.read_text().splitlines()
    if sensors.returncode not in (0, 130):
        raise SystemExit(f"{nws} measure ended with {sensors.returncode}: {lines[-1] if lines else ''}")
    return next((line for line in reversed(lines) if "runs done" in line), "no run was done")


def exported(state: Path) -> list[list[str]]:
    """Return rows (series, t, value) of all measurements, with another host name."""
    nws = Path(sys.executable).with_name("nws")
    environment = os.environ | {"APPLES_STATE": str(state)}
    done = subprocess.run([nws, "export"], env=environment, capture_output=True, text=True, check=True)
    rows = list(csv.reader(done.stdout.splitlines()))[1:]
    return [[f"{s.split('@')[0]}@{_place(s)}", f"{float(t):.3f}", value] for s, t, value in rows]


def _place(series: str) -> str:
    return f"{_HOST}>{_HOST}" if ">" in series else _HOST


def write(path: Path, rows: list[list[str]]) -> None:
    """Write the rows as CSV.gz, the same bytes for the same rows; to a temporary file that is renamed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["series", "t", "value"], *rows])
    write_whole(path, gzip.compress(text.getvalue().encode(), mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="file to write, .csv.gz")
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", type=float, default=1.0, help="CPUs that the load wants on average")
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one measurement to the next")
    options = parser.parse_args()
    stop_on_sigterm()
    jobs = plan(options.seed, 60 * options.minutes, options.busy)
    with tempfile.TemporaryDirectory(prefix="record-weather-") as directory:
        state = Path(directory)
        load = Load(jobs, state / "runs")
        said = record(options.minutes, options.every, load, state)
        rows = exported(state)
    write(options.out, rows)
    series = len({row[0] for row in rows})
    print(f"{options.out}: {len(rows)} samples of {series} series; {said}; {load}")


if __name__ == "__main__":
    main()
