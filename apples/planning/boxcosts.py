"""The performance model for ranks that own boxes, and boxes that finish at the same time.

T_i = Comp_i + Comm_i + Over_i as for slabs (`apples.planning.model`), with these differences: a rank computes the cells
of its box; bytes to a neighbour are those of a whole row times the part of a row along which the two touch; everything
that leaves a host shares its interface; a rank with more than two neighbours handles more messages. One column of boxes
costs exactly what the chain of slabs costs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apples.model.grid import FloatArray
from apples.model.plan import RowAllocation
from apples.planning.chains import Chains
from apples.planning.cuts import BoxLayout, rectilinear_shares, whole_parts
from apples.planning.heights import HeightProgram, whole_heights
from apples.planning.minimax import makespans, minimax_rows
from apples.planning.model import RankCosts, unordered_lines
from apples.planning.planningoptions import PlanningOptions
from apples.planning.problem import UNUSABLE_S, IntArray, Problem

_Lay = Callable[[Problem, tuple[int, ...], RankCosts, float], BoxLayout | None]

#: Rounds in which boxes and the cost of their borders are adjusted to each other.
_ROUNDS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Priced boxes. chain : int64[n], processor of each rank of the layout.  lines : costs in whole rows of cells

    error_s : float64[n], standard deviation of the exchanges of each rank.  seconds : float64[n], T_i
    """

    chain: IntArray
    layout: BoxLayout
    lines: RankCosts
    error_s: FloatArray
    seconds: FloatArray

    @property
    def makespan_s(self) -> float:
        """Return the length of the run in seconds."""
        return float(self.seconds.max())


def priced(problem: Problem, chain: IntArray, layout: BoxLayout, options: PlanningOptions) -> Boxes:
    """Return a layout with its costs; links that do not work cost `UNUSABLE_S`."""
    width, hosts = _width(problem), problem.host_of[chain]
    first, second, cells = layout.borders()
    start, end = np.concatenate((first, second)), np.concatenate((second, first))
    a, b, part = hosts[start], hosts[end], np.concatenate((cells, cells)) / width
    leaving = np.bincount(a, part * (a != b), minlength=len(problem.hosts))
    load = np.where(a != b, np.maximum(leaving[a], leaving[b]), part)
    side, transfer = _exchange(problem, a, b)
    latency_s = side - transfer
    seconds = np.where(side < UNUSABLE_S, latency_s + transfer * load, UNUSABLE_S)
    error_s = problem.link_errors.between(a, b) * np.minimum(load, 1.0)
    communicate, error = np.zeros(len(chain)), np.zeros(len(chain))
    np.maximum.at(communicate, start, seconds)
    np.maximum.at(error, start, error_s)
    lines = unordered_lines(problem, Chains.of([chain]), options)
    more = np.maximum(np.bincount(start, minlength=len(chain)), 2) / 2 - 1
    slowest_s = problem.latency_s[a, b].max() if len(a) else 0.0
    fixed = lines.fixed + communicate + more * lines.handling + problem.reduction_hops * slowest_s
    lines = replace(lines, fixed=fixed, communicate=communicate)
    return Boxes(chain, layout, lines, error, lines.seconds(layout.cells / width))


def in_columns(
    problem: Problem, chain: IntArray, counts: tuple[int, ...], options: PlanningOptions
) -> Boxes | None:
    """Return the boxes of the chain in columns of so many ranks that finish as early as possible; None if none fit."""
    return _settled(problem, chain, counts, options, _column_layout)


def in_grid(problem: Problem, grid: IntArray, options: PlanningOptions) -> Boxes | None:
    """Return the boxes of processors in a grid of bands and columns, int64[r, c]; None if none fit."""
    counts = (grid.shape[0],) * grid.shape[1]
    return _settled(problem, grid.T.ravel(), counts, options, _grid_layout)


def with_whole_heights(
    problem: Problem, boxes: Boxes, options: PlanningOptions
) -> tuple[Boxes, RowAllocation] | None:
    """Return the boxes with the heights of the integer program of each column, and the proof of the latest.

    All bands of a grid have one height. None if heights with the costs of their borders end later than before.
    """
    layout, width = boxes.layout, _width(problem)
    columns, lines = _columns(layout.counts), _scaled(boxes.lines, layout.widths[layout.column] / width)
    parts = [(columns.part(c), np.arange(n)) for c, n in enumerate(layout.counts)]
    assert problem.workload.axes is not None
    if problem.workload.axes.cut == "rectilinear":
        parts = [(slice(0, len(boxes.chain)), np.tile(parts[0][1], len(parts)))]
    solutions = []
    for part, band in parts:
        program = HeightProgram(lines.take(part), problem.size, problem.min_rows, band=band)
        known = layout.heights[part][: int(band.max()) + 1]
        solution = whole_heights(program, lines.take(part), known, band=band)
        if solution is None:
            return None
        solutions.append((solution[0][band], solution[1]))
    heights = np.concatenate([rows for rows, _ in solutions])
    better = priced(problem, boxes.chain, replace(layout, heights=heights), options)
    if better.makespan_s > boxes.makespan_s * (1 + 1e-9):
        return None
    return better, max((proof for _, proof in solutions), key=lambda proof: proof.bound_s or 0.0)


def _settled(
    problem: Problem, chain: IntArray, counts: tuple[int, ...], options: PlanningOptions, lay: _Lay
) -> Boxes | None:
    """Return the best of some rounds: boxes for the last known costs, then the costs of the new borders."""
    lines, finish_s = unordered_lines(problem, Chains.of([chain]), options), 0.0
    best: Boxes | None = None
    for _ in range(_ROUNDS):
        layout = lay(problem, counts, lines, finish_s)
        if layout is None:
            break
        boxes = priced(problem, chain, layout, options)
        if boxes.lines.communicate.max() >= UNUSABLE_S:
            break
        lines, finish_s = boxes.lines, boxes.makespan_s
        if best is None or boxes.makespan_s < best.makespan_s:
            best = boxes
    return best


def _column_layout(
    problem: Problem, counts: tuple[int, ...], lines: RankCosts, finish_s: float
) -> BoxLayout | None:
    """Return columns as wide as their ranks are fast, and in each the heights that finish together; None if none."""
    width, columns = _width(problem), _columns(counts)
    real = _areas(problem, lines, 0.0)
    if real is None:
        return None
    starts = columns.starts[:-1]
    speed, fixed = columns.total(1 / lines.slope), columns.total(lines.fixed / lines.slope)
    widths = whole_parts(
        np.add.reduceat(real, starts) * width / problem.size,
        width,
        _min_width(problem),
        np.floor(columns.total(lines.cap) * width / problem.size + 1e-9).tolist(),
        lambda c, cells: float((cells * problem.size / width + fixed[c]) / speed[c]),
    )
    if widths is None:
        return None
    inside = _scaled(lines, np.repeat(widths, counts) / width)
    ends_s = makespans(inside, columns, problem.size, problem.min_rows)
    if not np.isfinite(ends_s).all():
        return None
    heights = [
        minimax_rows(inside.take(columns.part(c)), problem.size, problem.min_rows, float(ends_s[c]))
        for c in range(len(counts))
    ]
    if any(column.sum() != problem.size for column in heights):
        return None
    return BoxLayout(counts, widths, np.concatenate(heights))


def _grid_layout(
    problem: Problem, counts: tuple[int, ...], lines: RankCosts, finish_s: float
) -> BoxLayout | None:
    """Return common heights of all columns, and widths, so that the slowest rank ends early; None if none fit."""
    width, bands = _width(problem), counts[0]
    real = _areas(problem, lines, finish_s)
    if real is None:
        return None
    order = np.arange(len(real)).reshape(len(counts), bands).T
    tall, wide = rectilinear_shares(real[order])
    tall, wide = tall * problem.size / tall.sum(), wide * width / wide.sum()

    def column_s(c: int, cells: int) -> float:
        return float(lines.take(order[:, c]).seconds(tall * cells / width).max())

    cap = lines.cap[order]
    most = np.floor((cap * width / tall[:, None]).min(axis=0) + 1e-9)
    widths = whole_parts(wide, width, _min_width(problem), most.tolist(), column_s)
    if widths is None:
        # Rounded heights may leave room for what the real ones do not.
        widths = whole_parts(wide, width, _min_width(problem), [float(width)] * len(counts), column_s)
    if widths is None:
        return None
    most = np.floor((cap * width / widths[None, :]).min(axis=1) + 1e-9)

    def band_s(i: int, rows: int) -> float:
        return float(lines.take(order[i]).seconds(rows * widths / width).max())

    heights = whole_parts(tall, problem.size, problem.min_rows, most.tolist(), band_s)
    return None if heights is None else BoxLayout(counts, widths, np.tile(heights, len(counts)))


def _areas(problem: Problem, lines: RankCosts, finish_s: float) -> FloatArray | None:
    """Return the rows of cells that each rank finishes by `finish_s`, or by the best common finish if that is later.

    None if some rank could not finish its smallest box by then, or all together cannot hold the work.
    """
    least = problem.min_rows * _min_width(problem) / _width(problem)
    whole = replace(lines, communicate=np.minimum(lines.communicate, 0.0))
    ends_s = float(makespans(whole, _columns((len(lines.slope),)), problem.size, 0)[0])
    if not np.isfinite(ends_s):
        return None
    areas = lines.rows_by(np.full(len(lines.slope), max(ends_s, finish_s)))
    return None if (areas < least / 2).any() else np.maximum(areas, least)


def _scaled(lines: RankCosts, part: FloatArray) -> RankCosts:
    """Return the costs of rows of which each rank owns only a part, float64[n]."""
    return replace(
        lines,
        slope=lines.slope * part,
        cap=np.floor(lines.cap / part + 1e-9),
        bend=lines.bend / part,
        communicate=np.zeros_like(part),
    )


def _columns(counts: tuple[int, ...]) -> Chains:
    """Return the ranks of a layout as one chain for each column."""
    return Chains(np.arange(sum(counts)), np.concatenate(([0], np.cumsum(counts))))


def _exchange(problem: Problem, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the seconds of an exchange of whole rows between hosts, and the part that grows with the bytes."""
    side, moving = problem.side[a, b], problem.bytes_exchanged * problem.communication
    return side, np.where(side < UNUSABLE_S, moving / problem.bandwidth_Bps[a, b], 0.0)


def _width(problem: Problem) -> int:
    assert problem.workload.axes is not None
    return problem.workload.axes.width


def _min_width(problem: Problem) -> int:
    assert problem.workload.axes is not None
    return problem.workload.axes.min_width
