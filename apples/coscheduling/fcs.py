"""Flexible coscheduling on a node: a slot belongs to one process, and its class decides how the others run.

Algorithm 1 of the FCS paper (section 2.2), for every processor at every heartbeat. If the owner of the slot is CS, it
polls and all other processes there are stopped. Otherwise all DC and F processes of the processor run as the operating
system decides and spin-block; an F process is favoured in its own slot. CS processes are stopped there, also the
one that ran last: they "are no longer allowed to run in the F slots".

A CS process runs like an F process, but not favoured, while its job is contended: then it has no slot to itself. Until
it is first classified, it blocks when it waits, because a process that polls for 20 slots costs other ranks of an
oversubscribed node dearly.

If the slot has no process on a processor, DC and F processes use it. If its job has no process left on the node, CS
processes use it, too, and block when they wait, until the manager gives the slot to another job. The paper's first line
(nothing to do if the same process continues) is read as a rule about the switch, not about the class: a process alone
on its processor may still change how it waits.
"""

from collections.abc import Mapping
from types import MappingProxyType

from apples.coscheduling.classes import Classification, FcsConstants, ProcessClass, reclassify
from apples.coscheduling.events import Heartbeat, JobArrived, Order, Process, Wait
from apples.coscheduling.nodestate import RUN_POLLING, RUN_SPINNING, STOPPED, SlottedPolicy, owner

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

    def learned(self, process: Process) -> ProcessClass | None:
        """Return the class of a process that was in enough slots to be classified; None for others."""
        known = self._classifications.get(process)
        return None if known is None or known.tslots < self._constants.cslots_min else known.process_class

    def _arrived(self, event: JobArrived) -> None:
        super()._arrived(event)
        for process in event.processors:
            if process in self._classifications:
                continue
            known = event.classes.get(process)
            self._classifications[process] = (
                Classification()
                if known is None
                else Classification(process_class=known, tslots=self._constants.cslots_min)
            )

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
            known = self._classifications[process]
            if reading is not None and (
                reclassify(known, reading, constants) or known.tslots == constants.cslots_min
            ):
                changed = True
        if changed:
            self._reconsider()

    def _wants_alone(self, process: Process) -> bool:
        return self._classifications[process].process_class is ProcessClass.CS

    def _decide_slot(self, slot: Heartbeat) -> Mapping[Process, Order]:
        cs, f = ProcessClass.CS, ProcessClass.F
        owners = {processor: owner(slot, processor) for processor in self._here.values()}
        contended = self.contended
        processes = [
            (process, processor, known, None if process[0] in contended else known.process_class)
            for (process, processor), known in zip(
                self._here.items(), self._classifications.values(), strict=True
            )
        ]
        # Processors on which a CS process owns the slot; any of them if several processes of its job are there.
        exclusive = {
            processor
            for process, processor, _, kind in processes
            if kind is cs and process[0] == owners[processor]
        }
        vacated = self._vacated(slot)
        orders: dict[Process, Order] = {}
        for process, processor, known, kind in processes:
            owns = process[0] == owners[processor]
            if processor in exclusive:
                polls = kind is cs and known.tslots >= self._constants.cslots_min
                orders[process] = STOPPED if not owns else RUN_POLLING if polls else RUN_SPINNING
            elif kind is cs and processor not in vacated:
                orders[process] = STOPPED
            elif kind is f and owns:
                orders[process] = FAVOURED
            else:
                orders[process] = RUN_SPINNING
        return orders
