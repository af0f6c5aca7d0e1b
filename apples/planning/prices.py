"""Prices of the limits that bind a plan: the seconds that one unit more of each would save (`--explain`).

Memory and constraints that tie hosts: the program of the chain's heights is solved again in real rows, with 1 GB more
on one host or one unit more of a constraint. Its reduced costs say which hosts are worth it. A limit on the choice of
hosts: the planner plans again with one host or rank more, without the group, or with a tenth more money. So each price
is the effect itself of a change that people can make, and never more than they would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from apples.model.limits import Limits
from apples.planning.candidates import CandidateSchedule
from apples.planning.chains import Chains
from apples.planning.heights import HeightProgram, chain_program
from apples.planning.model import rank_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import Problem
from apples.planning.search import LEAST_GAIN

_GB = 1e9
#: Most hosts whose memory is priced.
_PRICED = 8
#: Part of a budget that counts as one unit of it.
_TENTH = 1.1


def row_prices(problem: Problem, schedule: CandidateSchedule, options: PlanningOptions) -> list[str]:
    """Return a sentence for each limit on the rows of the chain's hosts of which one unit more shortens the run."""
    lines = rank_lines(problem, Chains.of([schedule.chain]), options)
    program = chain_program(problem, schedule.chain, lines)
    if program.solve(whole=False) is None:
        return []
    now_s, sentences = program.finish_s, {}
    for name, most in _more_memory(problem, schedule, options, program):
        sentences[f"1 GB more on {name}"] = now_s - program.if_higher(most)
    for k, constraint in enumerate(problem.coupling):
        looser = replace(constraint, bound=constraint.bound + 1)
        others = problem.coupling[:k], problem.coupling[k + 1 :]
        program = chain_program(
            replace(problem, coupling=(*others[0], looser, *others[1])), schedule.chain, lines
        )
        if program.solve(whole=False) is not None:
            sentences[f"one unit more of {constraint.name}"] = now_s - program.finish_s
    return [
        f"{text} would save {saved:.3g} s" for text, saved in sentences.items() if saved > LEAST_GAIN * now_s
    ]


def _more_memory(
    problem: Problem, schedule: CandidateSchedule, options: PlanningOptions, program: HeightProgram
) -> list[tuple[str, dict[int, float]]]:
    """Return hosts of which memory binds, and the rows of each of their ranks with 1 GB more; the dearest first."""
    work = problem.workload
    if work.bytes_per_row <= 0 or options.allow_spill:
        return []
    hosts, sharing = problem.host_of[schedule.chain], Chains.of([schedule.chain]).ranks_on_host(problem)
    memory = problem.memory_rows[hosts, sharing]
    wider = memory + np.floor(_GB / sharing / work.bytes_per_row)
    most = np.minimum(np.minimum(wider, work.max_rows or np.inf), problem.size)
    saving = np.array([program.seconds_a_row(i) for i in range(len(hosts))]) * (schedule.rows >= memory)
    dearest = np.argsort(-np.bincount(hosts, saving), kind="stable")[:_PRICED]
    return [
        (problem.hosts[h].name, {int(i): float(most[i]) for i in np.flatnonzero(hosts == h)})
        for h in dearest[np.bincount(hosts, saving)[dearest] > 0]
    ]


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
