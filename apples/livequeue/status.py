"""Read-only requests to the manager: pages of the queue, reasons, and the end of a job for clients that wait."""

from __future__ import annotations

from typing import Any

from apples.errors import RequestRejected, UnknownJob
from apples.ipc.wire import Json
from apples.livequeue import views
from apples.livequeue.core import LiveQueue
from apples.livequeue.listener import ClientConnection
from apples.livequeue.reasons import why
from apples.livequeue.records import JobRecord


class StatusRequests:
    """The read-only requests of one queue: `queue`, `why` and `wait`."""

    def __init__(self, live: LiveQueue) -> None:
        self._live = live
        self._waiting: dict[int, list[ClientConnection]] = {}

    def answer(self, client: ClientConnection, request: str, argument: Any) -> None:
        """Answer one request, or keep the client until its job ends.

        Raises:
            RequestRejected: the request or its argument is not legal.
        """
        if request == "queue":
            client.answer({"queue": self._page(client, argument)})
        elif request == "why":
            client.answer({"why": why(self._live, self.record(argument).id) or ""})
        elif request == "wait":
            self._wait(client, self.record(argument))
        else:
            raise RequestRejected(f"{request!r} is no request; legal are submit, queue, why, cancel, wait")

    def record(self, job_id: object) -> JobRecord:
        """Return the job with this id; raise `UnknownJob` if there is none."""
        record = self._live.store.job(job_id) if isinstance(job_id, int) else None
        if record is None:
            raise UnknownJob(f"there is no job {job_id!r}; `apples queue --all` lists all jobs")
        return record

    def job_ended(self, record: JobRecord) -> None:
        """Answer the clients that wait for this job."""
        for client in self._waiting.pop(record.id, ()):
            self._send_end(client, record)

    def disconnected(self, client: ClientConnection) -> None:
        """Remove a client that closed its connection."""
        for clients in self._waiting.values():
            if client in clients:
                clients.remove(client)

    def _page(self, client: ClientConnection, argument: Any) -> Json:
        """Return one page. `argument`: {"all": flag, "after": job id}."""
        options = argument if isinstance(argument, dict) else {}
        after = options.get("after", 0)
        if not isinstance(after, int):
            raise RequestRejected(f"queue after {after!r}: the number of a job is legal")
        return views.document(self._live, client.uid, everything=bool(options.get("all")), after=after)

    def _wait(self, client: ClientConnection, record: JobRecord) -> None:
        if record.freed_s is not None:
            self._send_end(client, record)
        else:
            self._waiting.setdefault(record.id, []).append(client)

    def _send_end(self, client: ClientConnection, record: JobRecord) -> None:
        client.answer({"ended": views.row(self._live, record, client.uid)})
