"""The machine manager's decisions: which jobs are in the matrix, and which slot is next (FCS paper, section 2.2).

Jobs that do not fit, or have lost nodes, wait in the order of arrival, behind jobs of their own user only. There is no
backfilling: that is the task of `apples.queueing`. Every heartbeat is a row of the matrix: users take turns, and in the
turn of a user its rows do, so a user's share of the slots does not grow with the number of its jobs. The nodes'
policies decide the meaning of a row there.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from apples.coscheduling.matrix import Allotment, OusterhoutMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSlot:
    """One slot on all nodes.

    slot : row of the matrix, None if it is empty
    jobs : by node and processor, the job that owns the slot
    fill : by node and processor, a job of another slot that may use a processor that is idle in this one
    """

    slot: int | None
    jobs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    fill: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


_NO_SLOT = MachineSlot(slot=None)


class Turn(NamedTuple):
    """The user whose turn it is, and a slot of that user; both None while the matrix is empty."""

    user: int | None
    slot: int | None


_NO_TURN = Turn(None, None)


class _Waiting(NamedTuple):
    job: str
    nodes: tuple[str, ...]
    user: int


class MachineScheduler:
    """Jobs on the nodes of one machine.

    processors : number of processors by node
    mpl : limit of jobs of one user that share a processor, None for no limit
    """

    def __init__(self, processors: Mapping[str, int], *, mpl: int | None = None) -> None:
        self._matrix = OusterhoutMatrix(processors, mpl=mpl)
        self._waiting: deque[_Waiting] = deque()
        #: The user whose turn was last, and the last slot in a turn of each user.
        self._user: int | None = None
        self._last: dict[int, int] = {}
        #: Slots of each user, and the jobs of each slot, cached until the matrix changes: most heartbeats repeat them.
        self._turns: dict[int, tuple[int, ...]] | None = None
        self._slots: dict[int, MachineSlot] = {}

    @property
    def matrix(self) -> OusterhoutMatrix:
        """The matrix of jobs, to be changed through the machine only."""
        return self._matrix

    @property
    def waiting(self) -> tuple[str, ...]:
        """Jobs that wait, in the order of arrival."""
        return tuple(one.job for one in self._waiting)

    def arrive(
        self, job: str, nodes: tuple[str, ...], *, slot: int | None = None, user: int = 0
    ) -> tuple[Allotment, ...]:
        """Add a job whose rank i runs on `nodes[i]`; return it if it starts at once, else an empty tuple.

        The value of `slot` is its slot before a restart of the manager, `user` the number of its user.

        Raises `apples.coscheduling.matrix.DoesNotFit` for a job that can never run here.
        """
        self._matrix.check(job, nodes)
        if job in self._matrix.allotments or job in self.waiting:
            raise ValueError(f"job {job} is here already")
        self._waiting.append(_Waiting(job, nodes, user))
        return self._admit({job: slot} if slot is not None else {})

    def leave(self, job: str) -> tuple[Allotment, ...]:
        """Remove a job that runs or waits; return the jobs that start because of it."""
        self._waiting = deque(one for one in self._waiting if one.job != job)
        self._matrix.remove(job)
        self._changed()
        return self._admit({})

    def set_node(self, node: str, processors: int) -> tuple[Allotment, ...]:
        """Add or change a node; return the jobs that start because of it."""
        self._matrix.set_node(node, processors)
        self._changed()
        return self._admit({})

    def remove_node(self, node: str) -> tuple[str, ...]:
        """Remove a node; return the jobs with processes there, which stay until they `leave`."""
        self._changed()
        return self._matrix.remove_node(node)

    def next_slot(self) -> MachineSlot:
        """Return the next slot of the next user in turn."""
        (turn,) = self.upcoming(1)
        self.take(turn)
        return _NO_SLOT if turn.slot is None else self.slot_jobs(turn.slot)

    def upcoming(self, number: int) -> list[Turn]:
        """Return the next turns, valid until the matrix changes. None of them is taken."""
        if self._turns is None:
            matrix = self._matrix
            users = sorted({allotment.user for allotment in matrix.allotments.values()})
            self._turns = {user: matrix.rows_of(user) for user in users}
            self._last = {user: slot for user, slot in self._last.items() if user in self._turns}
        turns, user, last = self._turns, self._user, dict(self._last)
        in_turn = tuple(turns)
        upcoming = []
        for _ in range(number if turns else 0):
            user = _following(user, in_turn)
            last[user] = _following(last.get(user), turns[user])
            upcoming.append(Turn(user, last[user]))
        return upcoming or [_NO_TURN] * number

    def take(self, turn: Turn) -> None:
        """Begin the first of the `upcoming` turns."""
        self._user = turn.user
        if turn.user is not None and turn.slot is not None:
            self._last[turn.user] = turn.slot

    def slot_jobs(self, slot: int) -> MachineSlot:
        """Return the jobs of a slot by node and processor."""
        if slot not in self._slots:
            self._slots[slot] = self._describe(slot)
        return self._slots[slot]

    def _changed(self) -> None:
        """Drop cached slots after a change of the matrix."""
        self._turns = None
        self._slots.clear()

    def _admit(self, slots: Mapping[str, int]) -> tuple[Allotment, ...]:
        admitted: list[Allotment] = []
        held_up: set[int] = set()
        still: deque[_Waiting] = deque()
        for one in self._waiting:
            # While one of its nodes is lost, a job waits for that node, or until it leaves.
            here = one.user not in held_up and self._matrix.processors.keys() >= set(one.nodes)
            slot = slots.get(one.job)
            allotment = self._matrix.add(one.job, one.nodes, slot=slot, user=one.user) if here else None
            if allotment is None:
                held_up.add(one.user)
                still.append(one)
            else:
                admitted.append(allotment)
        self._waiting = still
        if admitted:
            self._changed()
        return tuple(admitted)

    def _describe(self, slot: int) -> MachineSlot:
        jobs: dict[str, dict[int, str]] = {}
        for column, job in self._matrix.row(slot).items():
            jobs.setdefault(column.node, {})[column.processor] = job
        fill: dict[str, dict[int, str]] = {}
        for allotment in self._matrix.also_runs(slot):
            for column in allotment.columns:
                fill.setdefault(column.node, {})[column.processor] = allotment.job
        return MachineSlot(slot=slot, jobs=jobs, fill=fill)


def _following(last: int | None, numbers: Sequence[int]) -> int:
    """Return the first of these numbers, which rise, beyond the last one; the first of all if there is none."""
    return numbers[0 if last is None else bisect_right(numbers, last) % len(numbers)]
