"""Spread of heartbeats over node managers: many real ones on this machine, and a thousand simulated hosts.

    python benchmarks/heartbeat_spread.py [--nodes 32] [--beats 300] [--slice 100ms] [--unicast]

The spread of a heartbeat is the time from the first node manager that receives it to the last. Each simulated host
draws its delay from the delays of one node manager alone on this machine. Hosts are therefore as busy as this one, and
the network between them adds nothing. Without multicast the time to send one datagram is added for each host before it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from apples.daemons.settings import parse_time
from apples.testing.localcluster import LocalCluster

SIMULATED = (1, 10, 32, 100, 320, 1000)
DRAWS, SEED = 2000, 1


def listen(nodes: int, beats: int, slice_s: float, *, unicast: bool) -> dict[int, list[tuple[float, ...]]]:
    """Return by heartbeat that all have received: (sent, received, acted) of each node manager, seconds."""
    directory = Path(tempfile.mkdtemp(prefix="spread-"))
    options = ("--multicast", "none") if unicast else ()
    names = {f"n{number}": "0-1" for number in range(nodes)}
    try:
        with LocalCluster(directory, names, slice_s=slice_s, manager_options=options) as cluster:
            cluster.start()
            # by then all are known to receive multicast, and get no unicast datagrams any more
            time.sleep(3.0 + beats * slice_s)
            heard: dict[int, list[tuple[float, ...]]] = defaultdict(list)
            for name in names:
                for number, *instants in cluster.ask(name, "beats")[-beats:]:
                    heard[number].append(tuple(instants))
            late = cluster.view()["late_s"]
            print(
                f"  beats late by {late['p50'] * 1e3:.3f} ms (half), {late['p95'] * 1e3:.3f} ms (p95), "
                f"{late['most'] * 1e3:.3f} ms (most)"
            )
            return {number: all_of_it for number, all_of_it in heard.items() if len(all_of_it) == nodes}
    finally:
        shutil.rmtree(directory)


def percentiles(values: list[float]) -> str:
    """Return median, 95th percentile and maximum, in ms."""
    ordered = sorted(values)
    p95 = ordered[int(0.95 * len(ordered))]
    return f"{statistics.median(ordered) * 1e3:.3f} / {p95 * 1e3:.3f} / {ordered[-1] * 1e3:.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--beats", type=int, default=300)
    parser.add_argument("--slice", default="100ms")
    parser.add_argument("--unicast", action="store_true")
    options = parser.parse_args()
    # SIGTERM must unwind, so that the daemons end, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    slice_s = parse_time(options.slice, what="--slice")
    way = "one by one" if options.unicast else "by multicast"
    print(f"{options.nodes} node managers on this machine, beats {way}:")
    together = listen(options.nodes, options.beats, slice_s, unicast=options.unicast)
    spreads, acted = (
        [max(i[at] for i in beat) - min(i[at] for i in beat) for beat in together.values()] for at in (1, 2)
    )
    print(f"  spread of {len(spreads)} beats, half / p95 / most: {percentiles(spreads)} (wanted p95 < 2 ms)")
    print(f"  the same until everybody has done as it says: {percentiles(acted)}")
    print("one node manager alone:")
    alone = listen(1, options.beats, slice_s, unicast=options.unicast)
    delays = [heard - sent for ((sent, heard, _),) in alone.values()]
    print(f"  delay of {len(delays)} beats: {percentiles(delays)}")
    each = statistics.median(spreads) / options.nodes if options.unicast else 0.0
    dice = random.Random(SEED)
    print("simulated hosts, spread half / p95 / most:")
    for hosts in SIMULATED:
        drawn = []
        for _ in range(DRAWS):
            heard = [place * each + dice.choice(delays) for place in range(hosts)]
            drawn.append(max(heard) - min(heard))
        print(f"  {hosts:5}: {percentiles(drawn)}")


if __name__ == "__main__":
    main()
