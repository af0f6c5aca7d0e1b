"""Users of one node: the weight of their processes, and the time that each of them had.

A share of the node belongs to a user, however many processes and jobs that user has there. With one user nothing
changes.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from apples.coscheduling.events import Order, Process

#: Ratio of the weights of two niceness steps (kernel/sched/core.c, sched_prio_to_weight), and the highest niceness.
NICE_STEP = 1.25
_MOST_NICE = 19


class Users:
    """The users of the jobs on one node.

    A user's time is the time in which one of the user's jobs was scheduled. A new user starts with the least time of
    the others, so that it cannot make up for its absence.
    """

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._time_s: dict[int, float] = {}

    def arrived(self, job: str, user: int) -> None:
        """Add a job."""
        self._of[job] = user
        self._time_s.setdefault(user, min(self._time_s.values(), default=0.0))

    def left(self, job: str) -> None:
        """Remove a job."""
        user = self._of.pop(job, None)
        if user is not None and user not in self._of.values():
            del self._time_s[user]

    def of(self, job: str) -> int:
        """Return the user of a job."""
        return self._of[job]

    def spent(self, job: str, seconds: float) -> None:
        """Add time in which a job was scheduled."""
        self._time_s[self._of[job]] += seconds

    def ahead(self, job: str, other: str) -> float:
        """Return by how many seconds the user of `job` had more time than the user of `other`."""
        return self._time_s[self._of[job]] - self._time_s[self._of[other]]

    def neediest(self, slack_s: float) -> list[str]:
        """Return the jobs of the user with the least time; of users within `slack_s`, those of the lowest number."""
        level = min(self._time_s.values()) + slack_s
        user = min(user for user, time_s in self._time_s.items() if time_s <= level)
        return [job for job, of in self._of.items() if of == user]

    def others(self, job: str) -> int:
        """Return how many jobs here belong to other users than that of `job`."""
        return sum(user != self._of[job] for user in self._of.values())

    def weighed(self, orders: Mapping[Process, Order]) -> Mapping[Process, Order]:
        """Return orders under which the processes of each user weigh as much together as those of any other.

        With one user the orders stay the same object.
        """
        steps = self._steps(orders)
        if not any(steps.values()):
            return orders
        return {
            process: replace(order, nice=min(order.nice + steps[self._of[process.job]], _MOST_NICE))
            for process, order in orders.items()
        }

    def levelled(
        self, orders: Mapping[Process, Order], here: Mapping[Process, int], owners: Collection[Process]
    ) -> Mapping[Process, Order]:
        """Return the orders of a slot in which no user has more of a processor than another beside its own turns.

        Processes of other users run beside an owner of the slot only if that one is favoured, or they would take its
        turn. There, and where no owner runs, each user runs as many processes as the user with the fewest. With one
        user the orders stay the same object.

        Args:
            orders: Orders for all processes.
            here: Processor of each process, in the order of arrival.
            owners: Processes that own the slot.
        """
        if len(self._time_s) < 2:
            return orders
        running: dict[int, dict[int, list[Process]]] = {}
        for process, processor in here.items():
            if orders[process].run:
                of_users = running.setdefault(processor, {})
                of_users.setdefault(self._of[process.job], []).append(process)
        stopped = Order(run=False)
        levelled = dict(orders)
        for of_users in running.values():
            fewest = min(map(len, of_users.values()))
            having = {
                self._of[process.job]: orders[process].favoured
                for processes in of_users.values()
                for process in processes
                if process in owners
            }
            for user, processes in of_users.items():
                if having and not all(having.values()):
                    number = len(processes) if user in having else 0
                else:
                    number = len(processes) if len(of_users) == 1 else fewest
                first_processes = _first(processes, owners, number)
                levelled.update((process, stopped) for process in processes if process not in first_processes)
        return levelled

    def _steps(self, processes: Iterable[Process]) -> dict[int, int]:
        """Return the niceness by user that makes up for having more processes than the user with the fewest."""
        if len(self._time_s) < 2:
            return {}
        here = Counter(self._of[process.job] for process in processes)
        fewest = min(here.values(), default=1)
        return {user: round(math.log(number / fewest, NICE_STEP)) for user, number in here.items()}


def _first(processes: list[Process], owners: Collection[Process], number: int) -> list[Process]:
    """Return so many processes: owners of the slot, then those behind the last owner, so that all have their turn."""
    at = [position for position, process in enumerate(processes) if process in owners]
    behind = at[-1] + 1 if at else 0
    others = [process for process in processes[behind:] + processes[:behind] if process not in owners]
    return [processes[position] for position in at] + others[: max(number - len(at), 0)]
