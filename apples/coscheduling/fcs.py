"""Flexible coscheduling on a node: the slot belongs to one process, and its class says what that means.

Algorithm 1 of the FCS paper (section 2.2). On every processor, at every heartbeat: if the process whose slot
begins is CS, everything else there is stopped and it polls. Otherwise all DC and F processes of the processor
run as their operating system likes and spin-block; an F process comes first in its own slot. CS processes are
stopped there, also the one that ran last: they "are no longer allowed to run in the F slots".

Where the slot has no process on a processor, DC and F processes use it. The paper's first line (nothing to do if
the same process goes on) is read as being about the switch, not about its class: a process that is alone may
still change how it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from apples.coscheduling.classes import Classification, FcsConstants, ProcessClass, reclassify
from apples.coscheduling.events import Heartbeat, JobArrived, Order, Process, Wait
from apples.coscheduling.node import RUN_POLLING, RUN_SPINNING, STOPPED, SlottedPolicy, owner

FAVOURED = Order(wait=Wait.SPIN_BLOCK, favoured=True)


class Fcs(SlottedPolicy):
    """One node under FCS."""

    needs_monitor = True

    def __init__(self, constants: FcsConstants | None = None) -> None:
        super().__init__()
        self._constants = constants or FcsConstants()
        #: In the order of arrival, like `_here`: both are made and forgotten together.
        self._standings: dict[Process, Classification] = {}

    @property
    def standings(self) -> Mapping[Process, Classification]:
        """Class and counts of every process on the node."""
        return MappingProxyType(self._standings)

    def _arrived(self, event: JobArrived) -> None:
        super()._arrived(event)
        for process in event.processors:
            self._standings.setdefault(process, Classification())

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        self._standings.pop(process, None)

    def _beat(self, event: Heartbeat) -> None:
        ended, answer = self._slot, self._given
        super()._beat(event)
        if ended is None or ended.slot is None:
            return
        readings, constants, changed = event.readings, self._constants, False
        for process in self._owners(ended) if answer is None else answer.owners:
            reading = readings.get(process)
            if reading is not None and reclassify(self._standings[process], reading, constants):
                changed = True
        if changed:
            self._reconsider()

    def _decide(self) -> Mapping[Process, Order]:
        slot = self._slot
        if slot is None or slot.slot is None:
            return dict.fromkeys(self._here, RUN_POLLING)
        cs, f = ProcessClass.CS, ProcessClass.F
        owners = {processor: owner(slot, processor) for processor in self._here.values()}
        about = [
            (process, processor, standing.process_class, process[0] == owners[processor])
            for (process, processor), standing in zip(
                self._here.items(), self._standings.values(), strict=True
            )
        ]
        # Processors whose slot is taken by a CS process; with several processes of a job there, by any of them.
        exclusive = {processor for _, processor, kind, owns in about if owns and kind is cs}
        orders: dict[Process, Order] = {}
        for process, processor, kind, owns in about:
            if processor in exclusive:
                orders[process] = RUN_POLLING if owns else STOPPED
            elif kind is cs:
                orders[process] = STOPPED
            elif kind is f and owns:
                orders[process] = FAVOURED
            else:
                orders[process] = RUN_SPINNING
        return orders
