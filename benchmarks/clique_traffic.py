"""Network cost of probing: probes, connections and bytes an hour in cliques, and in a full mesh.

    python benchmarks/clique_traffic.py [--hosts 10 34 100 300 1000] [--most 16] [--frame 4]

Counts the turns of one hour from the schedule itself: each turn probes each of its peers once, one connection each. A
probe's bytes are those of `nws.sensors.network` on a link of --bandwidth and --latency. They are counted by driving
the probe over a simulated link. The full mesh probes every ordered pair of all hosts, as often as the cliques probe
theirs. The last columns are per host: if they stay the same, traffic is linear in hosts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from nws.links.cliques import Schedule, automatic, pairs, schedule
from nws.sensors.network import ProbePlan, bandwidth_Bps, round_trip_s

_HOUR_S = 3600.0
#: Acknowledgements and headers of one message, and of opening and closing a connection, with TCP and IP.
_MESSAGE_BYTES, _CONNECTION_BYTES = 120, 500


class ComputedLink:
    """A simulated link of known latency (s, one way) and bandwidth (B/s) that counts its bytes."""

    left_s = float("inf")

    def __init__(self, latency_s: float, bandwidth_Bps: float) -> None:
        self.latency_s, self.bandwidth_Bps = latency_s, bandwidth_Bps
        self.sent_bytes = _CONNECTION_BYTES

    def exchange_s(self, length: int) -> float:
        """Return seconds for a message of `length` bytes and its acknowledgement."""
        self.sent_bytes += length + _MESSAGE_BYTES + 40 * (length // 1460)
        return 2 * self.latency_s + length / self.bandwidth_Bps


def probe_bytes(latency_s: float, bandwidth: float) -> int:
    link = ComputedLink(latency_s, bandwidth)
    plan = ProbePlan(most_bytes=4 << 20)
    bandwidth_Bps(link, round_trip_s(link, plan.round_trips), plan)  # type: ignore[arg-type]
    return link.sent_bytes


def probes_per_hour(made: Schedule) -> float:
    """Return the probes of all turns in an hour: those of one round of each clique, over the duration of the round."""
    total = 0.0
    for clique in made.cliques:
        one_round = sum(len(made.peers(host, clique.name)) for host in clique.members)
        total += one_round * _HOUR_S / made.round_s(clique.name)
    return total


def in_cliques(hosts: Sequence[str], most: int, frame_s: float) -> Schedule:
    return schedule(automatic(hosts, {}, most), version=1, effective_from=0.0, frame_s=frame_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[10, 34, 100, 300, 1000])
    parser.add_argument("--most", type=int, default=16, help="members of a clique at most")
    parser.add_argument("--frame", type=float, default=4.0, help="length of a frame, s")
    parser.add_argument("--latency", type=float, default=50e-6, help="s, one way")
    parser.add_argument("--bandwidth", type=float, default=125e6, help="B/s")
    options = parser.parse_args()
    each = probe_bytes(options.latency, options.bandwidth)
    print(f"one probe at {options.bandwidth / 1e6:g} MB/s, {options.latency * 1e6:g} µs: {each / 1e6:.2f} MB")
    print(
        f"\n{'hosts':>6} {'how':12}{'cliques':>8}{'pairs':>9}{'every s':>9}{'probes/h':>11}{'GB/h':>9}"
        f"{'pairs/host':>12}{'probes/h/host':>15}{'kB/s/host':>11}{'share of link':>15}"
    )
    for count in options.hosts:
        hosts = [f"n{number:04d}" for number in range(count)]
        made = in_cliques(hosts, options.most, options.frame)
        longest = max(made.round_s(c.name) for c in made.cliques)
        all_pairs = count * (count - 1)
        rows = [
            ("cliques", len(made.cliques), len(pairs(made.cliques)), longest, probes_per_hour(made)),
            ("full mesh", 1, all_pairs, longest, all_pairs * _HOUR_S / longest),
        ]
        for how, cliques, measured, every, probes in rows:
            print(
                f"{count:6} {how:12}{cliques:8}{measured:9}{every:9.0f}{probes:11.0f}{probes * each / 1e9:9.1f}"
                f"{measured / count:12.1f}{probes / count:15.0f}{probes * each / count / _HOUR_S / 1e3:11.1f}"
                f"{probes * each / count / _HOUR_S / options.bandwidth:15.1%}"
            )


if __name__ == "__main__":
    main()
