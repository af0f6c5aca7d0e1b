"""Prices of the limits that bind a plan: the seconds that one unit more of each would save (`--explain`).

Memory: the same chain is cut again with 1 GB more on one host. A limit on the choice of hosts: the planner plans again
with one host or rank more, without the group, or with a tenth more money. So each price is the effect itself of a
change that people can make, and never more than they would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apples.model.limits import Limits
from apples.planning.candidates import CandidateSchedule
from apples.planning.chains import Chains
from apples.planning.minimax import makespans
from apples.planning.model import rank_lines
from apples.planning.options import PlanningOptions
from apples.planning.problem import Problem
from apples.planning.search import LEAST_GAIN

_GB = 1e9
#: Part of a budget that counts as one unit of it.
_TENTH = 1.1


def memory_prices(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> list[str]:
    """Return a sentence for each host of the chain on which 1 GB more would shorten the run."""
    work = problem.workload
    if work.bytes_per_row <= 0 or options.allow_spill or problem.coupling:
        return []
    chains = Chains.of([schedule.chain])
    lines = rank_lines(problem, chains, options)
    hosts, sharing = problem.host_of[schedule.chain], chains.ranks_on_host(problem)
    memory = problem.memory_rows[hosts, sharing]
    now = float(makespans(lines, chains, problem.size, problem.min_rows)[0])
    full = schedule.rows >= memory
    sentences = []
    for h in dict.fromkeys(hosts[full].tolist()):
        more = np.where(hosts == h, np.floor(_GB / sharing / work.bytes_per_row), 0.0)
        most = np.inf if work.max_rows is None else float(work.max_rows)
        wider = replace(
            lines,
            cap=np.maximum(lines.cap, np.minimum(memory + more, most)),
            bend=lines.bend + more,
        )
        saved = now - float(makespans(wider, chains, problem.size, problem.min_rows)[0])
        if saved > LEAST_GAIN * now:
            sentences.append(f"1 GB more on {problem.hosts[h].name} would save {saved:.3g} s")
    return sentences


def limit_prices(limits: Limits, makespan_s: float, replan: Callable[[Limits], float]) -> list[str]:
    """Return a sentence for each limit on hosts without which, or with one unit more of which, the run is shorter.

    replan : returns the makespan in seconds under other limits, inf if there is no plan
    """
    sentences = []
    for words, wider in _wider(limits):
        saved = makespan_s - replan(wider)
        if saved > LEAST_GAIN * makespan_s:
            sentences.append(f"{words} would save {saved:.3g} s")
    return sentences


def _wider(limits: Limits) -> Iterator[tuple[str, Limits]]:
    """Yield each change that widens one limit, in words and as limits."""
    for i, limit in enumerate(limits.at_most):
        others = limits.at_most[:i], limits.at_most[i + 1 :]
        for what in ("hosts", "ranks"):
            count = getattr(limit, what)
            if count is not None:
                more = replace(limit, **{what: count + 1})
                yield (
                    f"one {what[:-1]} more of {limit.of}",
                    replace(limits, at_most=(*others[0], more, *others[1])),
                )
    for selector in limits.together:
        yield f"using hosts of {selector} alone", limits.without(f"{selector} together")
    for selector in limits.apart:
        yield f"using several hosts of {selector}", limits.without(f"{selector} apart")
    if limits.budget is not None:
        yield f"a budget of {limits.budget * _TENTH:.4g}", replace(limits, budget=limits.budget * _TENTH)
