"""Flexible coscheduling on a node: a slot belongs to one process, and its class decides how the others run.

Algorithm 1 of the FCS paper (section 2.2), for every processor at every heartbeat. If the owner of the slot is CS, it
polls and all other processes there are stopped. Otherwise all DC and F processes of the processor run as the operating
system decides and spin-block; an F process is favoured in its own slot. CS processes are stopped there, also the
one that ran last: they "are no longer allowed to run in the F slots".

If the slot has no process on a processor, DC and F processes use it. The paper's first line (nothing to do if the same
process continues) is read as a rule about the switch, not about the class: a process alone on its processor may
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
        #: In the order of arrival, like `_here`: both are filled and emptied together.
        self._classifications: dict[Process, Classification] = {}

    @property
    def classifications(self) -> Mapping[Process, Classification]:
        """Class and slot counts of every process on the node."""
        return MappingProxyType(self._classifications)

    def _arrived(self, event: JobArrived) -> None:
        super()._arrived(event)
        for process in event.processors:
            self._classifications.setdefault(process, Classification())

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        self._classifications.pop(process, None)

    def _heartbeat(self, event: Heartbeat) -> None:
        ended, decision = self._slot, self._decision
        super()._heartbeat(event)
        if ended is None or ended.slot is None:
            return
        readings, constants, changed = event.readings, self._constants, False
        for process in self._owners(ended) if decision is None else decision.owners:
            reading = readings.get(process)
            if reading is not None and reclassify(self._classifications[process], reading, constants):
                changed = True
        if changed:
            self._reconsider()

    def _decide_slot(self, slot: Heartbeat) -> Mapping[Process, Order]:
        cs, f = ProcessClass.CS, ProcessClass.F
        owners = {processor: owner(slot, processor) for processor in self._here.values()}
        processes = [
            (process, processor, known.process_class, process[0] == owners[processor])
            for (process, processor), known in zip(
                self._here.items(), self._classifications.values(), strict=True
            )
        ]
        # Processors on which a CS process owns the slot; any of them if several processes of its job are there.
        exclusive = {processor for _, processor, kind, owns in processes if owns and kind is cs}
        orders: dict[Process, Order] = {}
        for process, processor, kind, owns in processes:
            if processor in exclusive:
                orders[process] = RUN_POLLING if owns else STOPPED
            elif kind is cs:
                orders[process] = STOPPED
            elif kind is f and owns:
                orders[process] = FAVOURED
            else:
                orders[process] = RUN_SPINNING
        return orders
