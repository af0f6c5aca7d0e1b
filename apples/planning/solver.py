"""HiGHS as all programs of the planner use it: without output, one number of threads, limits that no clock decides.

A program is solved to a gap or until a number of nodes has been examined, never until a time. So a slow machine gives
the same plan and the same refusal as a fast one. The number of threads stays HiGHS' own, because a process in which it
changes gets no solution.
"""

from contextlib import suppress
from functools import cache
from typing import Any

from nws.base.native_output import native_output_discarded

#: Programs are solved to this fraction of the optimum, or until so many nodes have been examined.
GAP, NODES = 1e-6, 2000


def solved(program: Any, *, whole: bool) -> Any:
    """Solve a program of PuLP with HiGHS; return HiGHS' information about the solution, None without one.

    whole : whether variables of the kind `LpInteger` take whole values only
    """
    import pulp

    no_banner()
    solver = pulp.HiGHS(mip=whole, msg=False, gapRel=GAP, mip_max_nodes=NODES, parallel="off")
    # PuLP 3.3 has no word for a solution at the limit of nodes, but has read it before it looks for one.
    with suppress(KeyError):
        program.solve(solver)
    info = program.solverModel.getInfo()
    return info if has_solution(info) else None


def has_solution(info: Any) -> bool:
    """Return whether HiGHS has values that keep all constraints. info : of `highspy.Highs.getInfo`"""
    import highspy

    return int(info.primal_solution_status) == int(highspy.SolutionStatus.kSolutionStatusFeasible)


@cache
def no_banner() -> None:
    """Make the first solver object of the process, which prints a banner that no option switches off."""
    import highspy

    first: Any = highspy.Highs
    with native_output_discarded():
        first()
