"""Cancellations on their way into the queue: who may cancel a job, and the way in each of its states."""

import time
from collections.abc import Callable, Sequence

from apples.errors import RequestRejected, SharingError
from apples.ipc.server import Client
from apples.livequeue.core import LiveQueue
from apples.livequeue.models import Cancelled
from apples.livequeue.records import (
    CANCELLED,
    CODE_CANCELLED,
    ENDED,
    STARTING,
    WAITING,
    JobEnd,
    JobRecord,
)
from apples.livequeue.supervisors import Supervisors


class Cancellations:
    """Waiting jobs that the next instant cancels, and ends of others. `waiting`: their ids."""

    def __init__(self, live: LiveQueue, supervisors: Supervisors) -> None:
        self._live, self._supervisors = live, supervisors
        self.waiting: list[int] = []

    def cancel(
        self, client: Client, job_ids: Sequence[int], record_of: Callable[[int], JobRecord]
    ) -> list[Cancelled]:
        """Cancel jobs for a client; return the state of each (see `_cancel`), or why it was refused."""
        answers = []
        for job_id in job_ids:
            try:
                answers.append(Cancelled(job=job_id, state=self._cancel(client, record_of(job_id))))
            except SharingError as error:
                answers.append(Cancelled(job=job_id, refused=str(error), code=error.exit_code))
        return answers

    def _cancel(self, client: Client, record: JobRecord) -> str:
        """Cancel a job for a client, and return "cancelled" (with the next instant), "ending" or "over".

        Raises:
            RequestRejected: the job belongs to another user.
            HistoryError: the store cannot be written.
        """
        if not client.may_control(record.uid):
            raise RequestRejected(f"job {record.id} belongs to {record.user}; only its owner may cancel it")
        if record.state == ENDED:
            return "over"
        if record.state == WAITING:
            if record.id not in self.waiting:
                self.waiting.append(record.id)
            return "cancelled"
        store = self._live.store
        if record.state == STARTING:
            # No supervisor has claimed the job. One that is on its way will find nothing to do.
            end = JobEnd(outcome=CANCELLED, exit_code=CODE_CANCELLED, ended_at=time.time())
            with store.transaction():
                if store.end(record.id, end, only_from=(STARTING,)):
                    return "cancelled"
        with store.transaction():
            store.ask_to_end(record.id, str(client.uid))
        self._supervisors.ask_to_end(record.id)
        return "ending"
