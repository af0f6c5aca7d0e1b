"""Slabs for a run that leaves some of its hosts: who takes their rows. Pure.

Ranks that leave get no rows. A program that cannot lose ranks keeps them with as few rows as a rank can have.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import compress

import numpy as np

from apples.model.grid import FloatArray
from apples.planning.adapting.policy import AdaptationInputs
from apples.planning.adapting.repartitioning import balanced


def slabs_without(
    inputs: AdaptationInputs, row_s: FloatArray | None, hosts: Collection[str], *, stay: bool
) -> tuple[int, ...] | None:
    """Return slabs that free these hosts of their rows; None if the others cannot hold them.

    Args:
        inputs: of the run so far.
        row_s: float64[P], seconds of a row by the newest reports; None for those of the plan.
        hosts: their ranks get no rows.
        stay: these ranks keep as few rows as they can have.
    """
    leaving = np.array([host in hosts for host in inputs.hosts])
    if row_s is None:
        row_s = np.array(inputs.row_s)
    if len(row_s) != len(leaving) or not np.isfinite(row_s).all():
        row_s = np.ones(len(leaving))
    few = max(inputs.min_rows, 1) if stay else 0
    size = sum(inputs.rows) - few * int(leaving.sum())
    caps = np.array(inputs.caps, dtype=np.float64)[~leaving]
    if leaving.all() or (taken := balanced(row_s[~leaving], size, inputs.min_rows, caps)) is None:
        return None
    rows = np.full(len(leaving), few)
    rows[~leaving] = taken
    return tuple(rows.tolist())


def inputs_after(inputs: AdaptationInputs, rows: tuple[int, ...], hosts: Collection[str]) -> AdaptationInputs:
    """Return the inputs of the run with slabs of `slabs_without`; its idle ranks get no further rows."""
    caps = [
        float(height) if host in hosts else cap
        for height, host, cap in zip(rows, inputs.hosts, inputs.caps, strict=True)
    ]
    return replace(
        inputs,
        rows=tuple(compress(rows, rows)),
        hosts=tuple(compress(inputs.hosts, rows)),
        caps=tuple(compress(caps, rows)),
        row_s=tuple(compress(inputs.row_s, rows)),
        share=tuple(compress(inputs.share, rows)),
    )
