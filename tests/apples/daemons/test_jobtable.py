"""Jobs gather, arrive and leave; nodes come, go and come back; a new manager learns all of it from the nodes."""

import msgspec

from apples.daemons.jobtable import JobTable
from apples.daemons.nodemessages import TO_NODE, ProcessEntry
from tests.transcripts import replay


class JobTableSession:
    """Commands of transcripts: reports of nodes to a manager, answered with its jobs. `now`: goes on from the last."""

    def new(self, mpl=None, now="0"):
        self.now, self.held = float(now), {}
        self.table = JobTable(None if mpl is None else int(mpl), self.now)

    def at(self, now):
        """Time passes, as the manager notices every second."""
        self.now = float(now)
        self.table.tick(self.now)
        return self.jobs()

    def join(self, node, *processes, placed="no"):
        """A node connects. placed : it has rows from before, as `hold` has stored them"""
        view = self.held[node].jobs if placed == "yes" else {}
        entries = [entry(*word.split(".")) for word in processes]
        refused = self.table.joined(node, 1, entries, view, self.now)
        return [*(f"{job} is refused: {why}" for job, why in refused), *self.jobs()]

    def lost(self, node):
        self.table.lost(node, self.now)
        return self.jobs()

    def register(self, *words, uid="7"):
        """Processes as JOB.RANK.RANKS@NODE."""
        for word in words:
            text, _, node = word.partition("@")
            why = self.table.registered(node, entry(*text.split("."), uid), self.now)
            if why is not None:
                yield f"refused: {why}"
        yield from self.jobs()

    def end(self, *words):
        """Processes as JOB.RANK@NODE."""
        for word in words:
            text, _, node = word.partition("@")
            job, rank = text.split(".")
            self.table.ended(node, job, int(rank), self.now)
        return self.jobs()

    def view(self, node):
        view = self.table.view(node)
        assert TO_NODE.decode(msgspec.json.encode(view)) == view
        yield f"version {view.version}" + ", settled" * view.settled
        for number, row in view.rows.items():
            yield f"row {number}: jobs {row.jobs}, fill {row.fill}"
        for job, known in view.jobs.items():
            yield f"{job}: row {known.slot}, nodes {' '.join(known.nodes)}, processors {known.processors}"

    def hold(self):
        """Both nodes keep their views, for a manager that is started anew."""
        self.held = {node: self.table.view(node) for node in "ab"}

    def restart(self, mpl=None, now="100"):
        held = self.held
        self.new(mpl, now)
        self.held = held

    def jobs(self):
        for job, about in self.table.describe().items():
            row = "" if about.slot is None else f" row {about.slot}"
            ranks = f"{about.registered} of {about.ranks} ranks, {about.ended} ended"
            yield f"{job}: {about.state}{row}, {ranks}, on {' '.join(about.nodes)}"


def entry(job, rank, ranks="2", uid="7"):
    return ProcessEntry(job=job, rank=int(rank), ranks=int(ranks), uid=int(uid))


def test_reports_of_nodes_give_recorded_jobs(golden):
    golden("apples/daemons/jobtable.txt", replay("apples/daemons/jobtable.txt", JobTableSession()))
