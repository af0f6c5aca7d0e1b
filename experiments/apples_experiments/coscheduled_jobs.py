"""The workloads of the FCS paper's sections 3 and 4 as simulated jobs: the computing of every rank, by node.

A job of length T alone has T / (computation + exchange) iterations. A rank that is to run k times as long as
another in the same iterations computes k times (computation + exchange), less the exchange, which is unchanged
(section 3.2, footnote 4).
"""

from __future__ import annotations

from collections.abc import Mapping

from apples.coscheduling.classes import ProcessClass
from apples.coscheduling.events import Process
from apples_experiments.cluster.workload import BspJob
from apples_experiments.coscheduled_settings import Applications, Flexible

CS, F, DC = ProcessClass.CS, ProcessClass.F, ProcessClass.DC


def balanced(settings: Flexible, name: str) -> BspJob:
    """Return the building block: all ranks alike."""
    return _ring(settings, name, 1.0, parity=0)


def imbalanced(settings: Flexible, name: str, *, slow: int, factor: float = 2.0) -> BspJob:
    """Return a job whose ranks run `factor` times as long on nodes whose number has the parity `slow`."""
    return _ring(settings, name, factor, parity=slow)


def silent(settings: Flexible, name: str, *, parity: int) -> BspJob:
    """Return a job of the same length that does not communicate, on every other node (section 3.3)."""
    nodes = tuple(node for node in _nodes(settings) if node % 2 == parity)
    steps = max(1, round(settings.block.length_s))
    return BspJob(
        name=name,
        nodes=nodes,
        compute_s=(settings.block.length_s / steps,) * len(nodes),
        iterations=steps,
        pattern="none",
        latency_s=settings.latency_s,
    )


def sweep3d(settings: Flexible, name: str, *, length_s: float) -> BspJob:
    """Return SWEEP3D: fine-grained and balanced (section 4)."""
    applications_settings = settings.applications
    nodes = _nodes(settings)
    return BspJob(
        name=name,
        nodes=nodes,
        compute_s=(applications_settings.sweep3d_computation_s,) * len(nodes),
        iterations=_iterations(length_s, applications_settings.sweep3d_computation_s, settings),
        latency_s=settings.latency_s,
        refill_s=applications_settings.sweep3d_refill_s,
        cold_slowdown=applications_settings.sweep3d_cold_slowdown,
    )


def sage(settings: Flexible, name: str) -> BspJob:
    """Return SAGE: coarser and imbalanced; most ranks wait for the others of their node (section 4)."""
    applications_settings = settings.applications
    nodes = _nodes(settings)
    return BspJob(
        name=name,
        nodes=nodes,
        compute_s=tuple(
            applications_settings.sage_frustrated_computation_s
            if sage_is_frustrated(applications_settings, rank)
            else applications_settings.sage_computation_s
            for rank in range(len(nodes))
        ),
        iterations=_iterations(
            applications_settings.sage_length_s, applications_settings.sage_computation_s, settings
        ),
        latency_s=settings.latency_s,
        refill_s=applications_settings.sage_refill_s,
        cold_slowdown=applications_settings.sage_cold_slowdown,
    )


def sage_is_frustrated(applications: Applications, rank: int) -> bool:
    """Return whether the rank is one of those that mostly wait; these are spread evenly over the ranks."""
    return int((rank + 1) * applications.sage_frustrated_share) > int(
        rank * applications.sage_frustrated_share
    )


def stated_classes(
    jobs: Mapping[str, BspJob], kinds: Mapping[str, tuple[ProcessClass, ...]]
) -> dict[Process, ProcessClass]:
    """Return the class of each process. `kinds`: by job, the classes on nodes of even and odd number."""
    return {
        Process(name, rank): kinds[name][node % len(kinds[name])]
        for name, job in jobs.items()
        for rank, node in enumerate(job.nodes)
    }


def _nodes(settings: Flexible) -> tuple[int, ...]:
    """Return the node of each rank of a job that spans the machine."""
    machine = settings.machine
    return tuple(rank // machine.processors for rank in range(machine.nodes * machine.processors))


def _iterations(length_s: float, computation_s: float, settings: Flexible) -> int:
    return max(1, round(length_s / (computation_s + settings.latency_s)))


def _ring(settings: Flexible, name: str, factor: float, *, parity: int) -> BspJob:
    nodes, fast = _nodes(settings), settings.block.computation_s
    slow = factor * (fast + settings.latency_s) - settings.latency_s
    return BspJob(
        name=name,
        nodes=nodes,
        compute_s=tuple(slow if node % 2 == parity else fast for node in nodes),
        iterations=_iterations(settings.block.length_s, fast, settings),
        latency_s=settings.latency_s,
    )
