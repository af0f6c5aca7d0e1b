"""Runs benchmarks of slabs, each once, and keeps them."""

from apples.errors import ConfigError, LaunchError
from apples.model.grid import Host
from apples.model.launchrequest import Notify
from apples.model.template import BenchmarkRequest
from apples.platforms.platform import Platform
from apples.run.benchmarks import SlabBenchmarks


def measure(slabs: SlabBenchmarks, host: Host, notify: Notify, *, anew: bool = False) -> None:
    """Run the benchmarks that are not kept, or all `anew`; each is kept at once."""
    platform, name = slabs.platform, slabs.request.template.name
    key, machine = slabs.key, platform.machine(host)
    kept = None if anew else slabs.store.get(key, machine)
    known = set() if kept is None else {b.ranks for b in kept.benchmarks}
    for ranks in rank_counts(host.slots):
        if ranks in known:
            continue
        number = f"{ranks} rank{'s' * (ranks > 1)} of {slabs.rows} row{'s' * (slabs.rows > 1)}"
        notify(f"benchmark of {name} on {host.name} with {number} (once, then kept)")
        benchmark = BenchmarkRequest(
            template=slabs.request.template,
            options=slabs.request.settings,
            host=host,
            ranks=ranks,
            rows=slabs.rows,
            peer=_peer(platform, host) if platform.several_hosts else None,
            notify=notify,
        )
        slabs.store.put(key, machine, [platform.benchmark(benchmark)], platform.now())


def measure_second(slabs: SlabBenchmarks, host: Host, notify: Notify, *, anew: bool = False) -> None:
    """Run the benchmarks of the size on the other side of these slabs; if one fails, rows cost the same there."""
    # The memory of a row, which limits the size, is known from the first size.
    second = slabs.second()
    try:
        if second is not None:
            measure(second, host, notify, anew=anew)
    except (ConfigError, LaunchError) as error:
        notify(f"rows are assumed to cost as much as in slabs of {slabs.rows} rows: {error}")


def calibrate(slabs: SlabBenchmarks, notify: Notify) -> None:
    """Measure every benchmark anew, also those of the other slabs that plans of this size have had."""
    kept = [other for other in slabs.likely() if other.kept()]
    for host in slabs.within_reach():
        measure(slabs, host, notify, anew=True)
        measure_second(slabs, host, notify, anew=True)
        for other in kept:
            measure(other, host, notify, anew=True)


def rank_counts(slots: int) -> list[int]:
    """Return numbers of ranks to benchmark on a host: powers of two, and all slots."""
    counts, ranks = [], 1
    while ranks < slots:
        counts.append(ranks)
        ranks *= 2
    return [*counts, slots]


def _peer(platform: Platform, host: Host) -> Host | None:
    """Return another host within reach, preferably of the same CPU type; None if there is none."""
    others = [one for one in platform.pool.hosts if one.name != host.name and platform.reaches(one)]
    return min(others, key=lambda one: one.cpu_type != host.cpu_type, default=None)
