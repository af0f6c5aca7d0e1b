"""The NAS benchmarks of Yoo and Jette's Tables 2 and 3 as simulated jobs: bulk-synchronous, of stated size and traffic.

``sp.A.9`` is benchmark SP, class A, on nine processors. Its operations are shared evenly among them and between its
exchanges. A message that is longer than a piece takes as many exchanges in a row as it has pieces. Ranks fill the
processors of a node before the next node's, and a job goes to the nodes with the fewest jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from apples.errors import ConfigError
from apples_experiments.cluster.workload import BspJob, moved
from apples_experiments.coscheduled_settings import MessageDrivenRuns


def workload(settings: MessageDrivenRuns, names: Sequence[str]) -> tuple[BspJob, ...]:
    """Return jobs for names like ``sp.A.9``, in order; raises `ConfigError` with every unknown name."""
    problems = [problem for name in dict.fromkeys(names) if (problem := _problem(settings, name))]
    if problems:
        raise ConfigError(problems)
    jobs = []
    loads = [0] * settings.machine.nodes
    for i, name in enumerate(names):
        ranks = int(name.split(".")[2])
        nodes = tuple(rank // settings.machine.processors for rank in range(ranks))
        job = moved(_job(settings, f"{i + 1}:{name}", nodes), loads)
        for node in set(job.nodes):
            loads[node] += 1
        jobs.append(job)
    return tuple(jobs)


def queue(settings: MessageDrivenRuns, seed: int) -> tuple[BspJob, ...]:
    """Return the short jobs of Figure 4 in random order, with the long ones at random positions among them."""
    random = np.random.default_rng(seed)
    queue_settings = settings.queue
    names = [queue_settings.of[i] for i in random.integers(0, len(queue_settings.of), queue_settings.short)]
    for name in queue_settings.long:
        names.insert(int(random.integers(0, len(names) + 1)), name)
    return workload(settings, names)


def _job(settings: MessageDrivenRuns, name: str, nodes: tuple[int, ...]) -> BspJob:
    kind, size, ranks = name.partition(":")[2].split(".")
    benchmark, count = settings.benchmarks[kind], int(ranks)
    seconds = benchmark.operations[size] * 1e9 / settings.operations_per_s / count
    exchanges = benchmark.exchanges[size] * (1 + benchmark.side_exchanges * (math.isqrt(count) - 1))
    message_bytes = benchmark.point_bytes * benchmark.points.get(size, 0) ** 2 / count
    pieces = max(1, math.ceil(message_bytes / settings.piece_bytes))
    return BspJob(
        name=name,
        nodes=nodes,
        compute_s=(seconds / exchanges,) * count,
        iterations=exchanges * pieces,
        pieces=pieces,
        pattern=benchmark.pattern,
        latency_s=settings.latency_s,
        variation=settings.variation,
    )


def _problem(settings: MessageDrivenRuns, name: str) -> str | None:
    parts = name.split(".")
    legal = [f"{kind}.{size}" for kind, b in settings.benchmarks.items() for size in b.operations]
    if len(parts) != 3 or not parts[2].isdigit() or ".".join(parts[:2]) not in legal:
        return f"{name!r} is no benchmark; legal are {', '.join(legal)}, each with .PROCESSORS behind"
    if parts[1] not in settings.benchmarks[parts[0]].exchanges:
        return f"{name!r}: the settings say nothing of the exchanges of class {parts[1]}"
    most = settings.machine.nodes * settings.machine.processors
    if not 1 <= int(parts[2]) <= most:
        return f"{name!r} has {parts[2]} processors, legal are 1 to {most}"
    return None
