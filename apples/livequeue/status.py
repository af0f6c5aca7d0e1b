"""Read-only requests to the manager: pages of the queue, reasons, and the end of a job for clients that wait."""

from typing import Any

from apples.errors import UnknownJob
from apples.ipc.server import Client
from apples.livequeue import views
from apples.livequeue.core import LiveQueue
from apples.livequeue.models import Answer, PageRequest
from apples.livequeue.reasons import why
from apples.livequeue.records import JobRecord


class StatusRequests:
    """The read-only requests of one queue: `queue`, `why` and `wait`."""

    def __init__(self, live: LiveQueue) -> None:
        self._live = live
        self._waiting: dict[int, list[Client]] = {}

    def answer(self, client: Client, request: str, argument: Any) -> None:
        """Answer one request, or keep the client until its job ends.

        Raises:
            UnknownJob: there is no such job.
            HistoryError: the store cannot be read.
        """
        self._live.refresh()
        if request == "queue":
            page = argument or PageRequest()
            queue = views.document(self._live, client.uid, everything=page.all, after=page.after)
            client.send(Answer(queue=queue).line())
        elif request == "why":
            record = self.record(argument)
            reason = why(self._live, record.id, private=client.may_control(record.uid))
            client.send(Answer(why=reason or "").line())
        else:
            self._wait(client, self.record(argument))

    def record(self, job_id: int) -> JobRecord:
        """Return the job with this id; raise `UnknownJob` if there is none."""
        record = self._live.store.job(job_id)
        if record is None:
            raise UnknownJob(f"there is no job {job_id}; `apples queue --all` lists all jobs")
        return record

    def job_ended(self, record: JobRecord) -> None:
        """Answer the clients that wait for this job."""
        for client in self._waiting.pop(record.id, ()):
            self._send_end(client, record)

    def disconnected(self, client: Client) -> None:
        """Remove a client that closed its connection."""
        for clients in self._waiting.values():
            if client in clients:
                clients.remove(client)

    def _wait(self, client: Client, record: JobRecord) -> None:
        if record.freed_s is not None:
            self._send_end(client, record)
        elif client.stream.open:
            # One that has left meanwhile would be kept until the job ends.
            self._waiting.setdefault(record.id, []).append(client)

    def _send_end(self, client: Client, record: JobRecord) -> None:
        client.send(Answer(ended=views.row(self._live, record, client.uid)).line())
