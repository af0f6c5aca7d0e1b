"""The Ousterhout matrix: rows are time slots, columns are the machine's processors (FCS paper, section 2.2).

A job takes one cell for each process, all in one row, so that its processes run at the same time. Packing is first
fit: the lowest row in which every node has enough free processors. A job with more processes on a node than the
node has processors takes them all, several processes to each. When jobs leave, `unify` moves jobs down
to rows in which their own columns are free, and drops empty rows; processes never change processors.
`also_runs` yields the jobs that may use another row, because their columns are idle there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import NamedTuple

from apples.errors import ApplesError


class MatrixColumn(NamedTuple):
    """One processor of the machine."""

    node: str
    processor: int


class DoesNotFit(ApplesError):
    """The job has no processes, or needs a node that does not exist."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """Row and columns of a job. `columns`: in the order of its ranks.  `user`: number of its user"""

    job: str
    slot: int
    columns: tuple[MatrixColumn, ...]
    user: int = 0


class OusterhoutMatrix:
    """Jobs in rows.

    processors : number of processors by node
    mpl : degree of multiprogramming, the largest number of rows with jobs of one user; None for no limit
    """

    def __init__(self, processors: Mapping[str, int], *, mpl: int | None = None) -> None:
        if mpl is not None and mpl < 1:
            raise ValueError(f"the degree of multiprogramming is {mpl}, legal is a whole number from 1")
        self._processors = dict(processors)
        self._mpl = mpl
        self._rows: list[dict[MatrixColumn, str]] = []
        self._allotments: dict[str, Allotment] = {}

    @property
    def processors(self) -> Mapping[str, int]:
        """Number of processors by node."""
        return self._processors

    @property
    def slots(self) -> int:
        """Number of rows in use."""
        return len(self._rows)

    @property
    def allotments(self) -> Mapping[str, Allotment]:
        """Row and columns of every job, in the order of arrival."""
        return self._allotments

    def row(self, slot: int) -> Mapping[MatrixColumn, str]:
        """Return the jobs of one slot by column."""
        return self._rows[slot]

    def set_node(self, node: str, processors: int) -> None:
        """Add a node or change its number of processors; its jobs stay."""
        self._processors[node] = processors

    def remove_node(self, node: str) -> tuple[str, ...]:
        """Remove a node; return the jobs with processes there, which stay until they are removed."""
        self._processors.pop(node, None)
        return tuple(job for job, a in self._allotments.items() if any(c.node == node for c in a.columns))

    def check(self, job: str, nodes: tuple[str, ...]) -> None:
        """Raise `DoesNotFit` for a job that could not even run alone."""
        if not nodes:
            raise DoesNotFit(f"job {job} has no processes")
        unknown = [node for node in dict.fromkeys(nodes) if node not in self._processors]
        if unknown:
            known = ", ".join(sorted(self._processors)) or "none"
            raise DoesNotFit(
                f"job {job} runs on {', '.join(unknown)}: no node of this machine; its nodes are: {known}"
            )

    def rows_of(self, user: int) -> tuple[int, ...]:
        """Return the rows with jobs of a user, the lowest first."""
        return tuple(sorted({a.slot for a in self._allotments.values() if a.user == user}))

    def add(
        self, job: str, nodes: tuple[str, ...], *, slot: int | None = None, user: int = 0
    ) -> Allotment | None:
        """Place a job whose rank i runs on `nodes[i]`; return None if every allowed row is taken.

        `slot` is its earlier row, which it gets again if that is possible. Rows below it may stay empty until
        their own jobs are back.

        Raises `DoesNotFit` for a job that could not even run alone, `ValueError` for one that is in the matrix already.
        """
        if job in self._allotments:
            raise ValueError(f"job {job} is in the matrix")
        self.check(job, nodes)
        rows = [*([] if slot is None else [slot]), *range(len(self._rows) + 1)]
        if self._mpl is not None and len(taken := self.rows_of(user)) >= self._mpl:
            rows = [row for row in rows if row in taken]
        for number in rows:
            columns = self._free_columns(number, nodes)
            if columns is not None:
                return self._put(Allotment(job=job, slot=number, columns=columns, user=user))
        return None

    def remove(self, job: str) -> tuple[Allotment, ...]:
        """Remove a job; return the jobs that moved to another slot because of it."""
        allotment = self._allotments.pop(job, None)
        if allotment is None:
            return ()
        for column in set(allotment.columns):
            del self._rows[allotment.slot][column]
        return self.unify()

    def unify(self) -> tuple[Allotment, ...]:
        """Move jobs to the lowest row in which their columns are free, and drop empty rows; return the moved jobs."""
        before = dict(self._allotments)
        for allotment in before.values():
            for number in range(allotment.slot):
                if all(column not in self._rows[number] for column in allotment.columns):
                    for column in set(allotment.columns):
                        del self._rows[allotment.slot][column]
                    self._put(replace(allotment, slot=number))
                    break
        self._drop_empty_rows()
        return tuple(a for job, a in self._allotments.items() if before[job].slot != a.slot)

    def also_runs(self, slot: int) -> Iterator[Allotment]:
        """Yield jobs of other slots that fit into this one, in the order of arrival; they share no processor."""
        taken = set(self._rows[slot])
        for allotment in self._allotments.values():
            if allotment.slot != slot and taken.isdisjoint(allotment.columns):
                taken.update(allotment.columns)
                yield allotment

    def _free_columns(self, slot: int, nodes: tuple[str, ...]) -> tuple[MatrixColumn, ...] | None:
        taken = self._rows[slot] if slot < len(self._rows) else {}
        free: dict[str, Iterator[MatrixColumn]] = {}
        for node in dict.fromkeys(nodes):
            columns = [c for p in range(self._processors[node]) if (c := MatrixColumn(node, p)) not in taken]
            if len(columns) < min(nodes.count(node), self._processors[node]):
                return None
            free[node] = cycle(columns)
        return tuple(next(free[node]) for node in nodes)

    def _put(self, allotment: Allotment) -> Allotment:
        while len(self._rows) <= allotment.slot:
            self._rows.append({})
        self._rows[allotment.slot].update(dict.fromkeys(allotment.columns, allotment.job))
        self._allotments[allotment.job] = allotment
        return allotment

    def _drop_empty_rows(self) -> None:
        filled = [number for number, row in enumerate(self._rows) if row]
        if len(filled) == len(self._rows):
            return
        new = {old: position for position, old in enumerate(filled)}
        self._rows = [self._rows[old] for old in filled]
        for job, a in self._allotments.items():
            self._allotments[job] = replace(a, slot=new[a.slot])
