"""Pieces on two axes: the box of each rank, and the cut that a plan chose.

Rows are counted along the first axis (y), as everywhere. A row has `width` cells along the second axis (x). Slabs are
boxes as wide as a row.

    x →  lx = 3, 5
    +---+-----+
    | 0 |  1  |  y ↓  ly = 2, 1    rectilinear: rank = place in y · columns + place in x
    +---+-----+
    | 2 |  3  |
    +---+-----+
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Literal

Kind = Literal["slabs", "rectilinear", "columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """How a program can be cut along a second axis.

    cut : "rectilinear", all columns of ranks at the same heights; or "columns", each at heights of its own
    width : cells of a row.  min_width : least cells of a row that one rank has
    """

    cut: Literal["rectilinear", "columns"]
    width: int
    min_width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The cells of one rank: `height` rows from row `y`, and in each `width` cells from cell `x`."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The cut of a plan for a program that takes two axes.

    kind : that was chosen.  width : cells of a row
    border : cells along all borders between ranks
    slabs_s, two_axes_s : predicted by the best cut of either sort, seconds; infinite if there is none
    slabs_border : `border` of the best slabs, 0 if there are none.  why : in a sentence
    """

    kind: Kind
    width: int
    border: int
    slabs_s: float
    two_axes_s: float
    slabs_border: int
    why: str


def slab_boxes(rows: Sequence[int], width: int) -> tuple[Box, ...]:
    """Return the boxes of slabs of these heights."""
    first = [0, *accumulate(rows)]
    return tuple(Box(x=0, y=y, width=width, height=h) for y, h in zip(first, rows, strict=False))


def column_widths(boxes: Sequence[Box]) -> tuple[int, ...]:
    """Return the widths of the columns of ranks, from the left."""
    return tuple(dict(sorted((b.x, b.width) for b in boxes)).values())


def column_counts(boxes: Sequence[Box]) -> tuple[int, ...]:
    """Return the number of ranks in each column, from the left."""
    return tuple(len(list(same)) for _, same in groupby(sorted(b.x for b in boxes)))


def band_heights(boxes: Sequence[Box]) -> tuple[int, ...]:
    """Return the heights of the rows of ranks of a rectilinear cut, from the top."""
    return tuple(dict(sorted((b.y, b.height) for b in boxes)).values())
