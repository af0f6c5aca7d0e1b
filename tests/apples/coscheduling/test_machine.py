"""The machine manager's decisions: who is in, in which row and columns, and whose turn it is."""

from apples.coscheduling.machine import MachineScheduler
from apples.coscheduling.matrix import DoesNotFit
from tests.transcripts import replay


class MachineSession:
    """Commands of transcripts: what happens to a machine, answered with its jobs. Nodes of ranks are letters."""

    def new(self, mpl=None, **processors):
        numbers = {node: int(text) for node, text in processors.items()}
        self.machine = MachineScheduler(numbers, mpl=None if mpl is None else int(mpl))

    def arrive(self, job, nodes="", slot=None, user="0"):
        row = None if slot is None else int(slot)
        try:
            admitted = self.machine.arrive(job, tuple(nodes), slot=row, user=int(user))
        except (DoesNotFit, ValueError) as error:
            return [f"refused: {error}"]
        return self.jobs(admitted)

    def leave(self, job):
        return self.jobs(self.machine.leave(job))

    def node(self, name, processors):
        return self.jobs(self.machine.set_node(name, int(processors)))

    def gone(self, name):
        return [f"had {' '.join(self.machine.remove_node(name)) or 'no job'}", *self.jobs(())]

    def jobs(self, admitted):
        new = {allotment.job for allotment in admitted}
        for job, allotment in self.machine.matrix.allotments.items():
            cells = " ".join(f"{node}{processor}" for node, processor in allotment.columns)
            yield f"{job} in row {allotment.slot} on {cells}" + ", new" * (job in new)
        for job in self.machine.waiting:
            yield f"{job} waits"

    def turns(self, number):
        for _ in range(int(number)):
            turn = self.machine.next_slot()
            cells = [f"{n}{p} {job}" for n, jobs in turn.jobs.items() for p, job in jobs.items()]
            fill = [f"{n}{p} {job} if idle" for n, jobs in turn.fill.items() for p, job in jobs.items()]
            yield f"row {turn.slot}: " + ", ".join([*cells, *fill])


def test_machine_events_give_recorded_rows_and_turns(golden):
    golden("coscheduling/machine.txt", replay("coscheduling/machine.txt", MachineSession()))
