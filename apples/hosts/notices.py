"""Notices of providers and batch systems that this host is about to end.

    aws          EC2's instance metadata with a token: interruption of a spot instance, advice to rebalance
    gcp          Compute Engine's metadata server: preemption, termination at maintenance. Live migration is no notice
    azure        Scheduled Events of this machine, except Freeze, a pause of seconds
    slurm        TERM or USR1 to the watcher, as by `--signal`
    kubernetes   TERM to the watcher, as at the end of its pod
    FILE         the file appears or has content

Metadata servers are asked at the link-local address, through no proxy. 404 means that there is no notice. Other
refusals, time-outs and answers that the provider does not document are reported, and the question is repeated.
"""

import os
import select
import signal
import time
from collections.abc import Callable

import msgspec
import psutil
import requests
from msgspec import Struct

from apples.hosts.kernel import SignalQueue
from apples.model.launchrequest import Notify
from nws.base.errors import ProbeError

#: Seconds until an answer must begin, and until it must have ended.
ANSWER_S, WHOLE_S = 2.0, 5.0
#: Documented answers have less than 4 KiB.
MOST_BYTES = 65_536
#: Seconds between two questions, and at most after refusals. Notices come 30 s (Azure, Google) or more before the end.
EVERY_S, LONGEST_PAUSE_S = 2.0, 10.0
#: Seconds for which Google's server holds an answer back until the value changes.
CHANGE_S = 5

#: Signals that are a notice.
SIGNALS = {"slurm": (signal.SIGTERM, signal.SIGUSR1), "kubernetes": (signal.SIGTERM,)}


class MetadataServer:
    """A metadata server. Called, it returns the notice or None, or raises `ProbeError` or msgspec's errors."""

    def __init__(self, url: str) -> None:
        self.url, self.etag, self._session = url, "0", requests.Session()
        self.headers: dict[str, str] = {}
        # Neither a proxy nor a .netrc: the address is of this machine.
        self._session.trust_env = False

    def __call__(self) -> str | None:
        """Return the notice if there is one."""
        raise NotImplementedError

    def ask(self, path: str, *, method: str = "GET", wait_s: float = 0.0) -> str | None:
        """Return the answer to a question, None for 404; raise `ProbeError` for other refusals and no answer.

        wait_s : seconds for which the server may hold its answer back
        """
        where, ends_at = self.url + path, time.monotonic() + wait_s + WHOLE_S
        limits, content = (ANSWER_S, ANSWER_S + wait_s), bytearray()
        try:
            with self._session.request(
                method, where, headers=self.headers, timeout=limits, allow_redirects=False, stream=True
            ) as response:
                # Larger pieces would wait for more bytes, each with a time-out of its own.
                for piece in response.iter_content(1):
                    content += piece
                    if len(content) > MOST_BYTES or time.monotonic() > ends_at:
                        raise ProbeError(f"{where}: the answer is too long or too slow")
        except requests.RequestException as error:
            raise ProbeError(f"{where}: no answer ({type(error).__name__})") from error
        if response.status_code not in (200, 404):
            raise ProbeError(f"{where}: answered {response.status_code} {response.reason}")
        self.etag = response.headers.get("ETag", "0")
        return None if response.status_code == 404 else content.decode("utf-8", "replace").strip()


class SpotInterruption(Struct):
    """The announced end of a spot instance of EC2."""

    action: str
    time: str


class RebalanceRecommendation(Struct):
    """A spot instance of EC2 is more likely than others to be interrupted."""

    noticeTime: str


class _ScheduledEvent(Struct, rename="pascal"):
    event_type: str
    resources: list[str]
    not_before: str = ""


class _ScheduledEvents(Struct, rename="pascal"):
    events: list[_ScheduledEvent]


_AWS_NOTICES = {
    "spot/instance-action": SpotInterruption,
    "events/recommendations/rebalance": RebalanceRecommendation,
}


class _Aws(MetadataServer):
    def __call__(self) -> str | None:
        """Return the interruption, or the advice to rebalance."""
        # A token for each round, so that none expires.
        self.headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = self.ask("/latest/api/token", method="PUT")
        if not token:
            raise ProbeError(f"{self.url}: gives no token")
        self.headers = {"X-aws-ec2-metadata-token": token}
        for path, document in _AWS_NOTICES.items():
            if (text := self.ask(f"/latest/meta-data/{path}")) is not None:
                return f"aws: {msgspec.json.decode(text, type=document)}"
        return None


class _Gcp(MetadataServer):
    def __call__(self) -> str | None:
        """Return the preemption or termination; wait up to `CHANGE_S` for the first."""
        self.headers = {"Metadata-Flavor": "Google"}
        prefix = "/computeMetadata/v1/instance"
        # Since the value of the last answer, so that no change is missed; 0 is answered at once.
        change = f"wait_for_change=true&timeout_sec={CHANGE_S}&last_etag={self.etag}"
        event = self.ask(f"{prefix}/maintenance-event") or "NONE"
        preempted = self.ask(f"{prefix}/preempted?{change}", wait_s=CHANGE_S)
        if preempted not in ("TRUE", "FALSE") or not event.endswith(("NONE", "_ON_HOST_MAINTENANCE")):
            raise ProbeError(f"{self.url}: illegal values {preempted!r:.40}, {event!r:.40}")
        if preempted == "TRUE":
            return "gcp: preempted"
        return None if event in ("NONE", "MIGRATE_ON_HOST_MAINTENANCE") else f"gcp: {event}"


class _Azure(MetadataServer):
    def __call__(self) -> str | None:
        """Return the first event that ends this machine. Events of the other machines of its set come, too."""
        self.headers = {"Metadata": "true"}
        name = self.ask("/metadata/instance/compute/name?api-version=2021-02-01&format=text")
        if not name:
            raise ProbeError(f"{self.url}: does not name this machine")
        text = self.ask("/metadata/scheduledevents?api-version=2020-07-01")
        for event in [] if text is None else msgspec.json.decode(text, type=_ScheduledEvents).events:
            if event.event_type != "Freeze" and name.lower() in map(str.lower, event.resources):
                return f"azure: {event.event_type} not before {event.not_before or 'now'}"
        return None


def _appearance(path: str) -> Callable[[], str | None]:
    """Return a function that returns the notice when the file appears, or gets content if it is there and empty."""
    was_there = os.path.exists(path)

    def ask() -> str | None:
        announced = os.path.exists(path) and (not was_there or os.stat(path).st_size)
        return f"{path} announces it" if announced else None

    return ask


PROVIDERS = {"aws": _Aws, "gcp": _Gcp, "azure": _Azure}


def await_notice(source: str, endpoint: str, notify: Notify) -> str:
    """Wait until this host is announced to end, and return by whom and how. KeyboardInterrupt ends the wait.

    Args:
        source: as in the head of this module.
        endpoint: address of the metadata server.
        notify: receives a line for each new reason why no question can be answered.
    """
    numbers = SIGNALS.get(source, ())
    ask = PROVIDERS[source](endpoint) if source in PROVIDERS else _appearance(source)
    problem, pause_s = "", EVERY_S
    with SignalQueue(numbers) as queue:
        notify(f"waiting for a notice of {source}")
        while not (received := queue.take()):
            try:
                if not numbers and (notice := ask()) is not None:
                    return notice
                problem, pause_s = "", EVERY_S
            except (ProbeError, msgspec.MsgspecError, RecursionError, OSError) as error:
                if str(error) != problem:
                    problem = str(error)
                    notify(f"{problem}; asking again")
                pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)
            select.select([queue], [], [], pause_s)
    return f"{received[0].name} to the watcher"


def notify_agents() -> int:
    """Inform the host agents of runs over ssh on this host, root's those of all users. Return how many there are."""
    count = 0
    for process in psutil.process_iter():
        try:
            mine = os.getuid() in (0, process.uids().real)
            if mine and process.cmdline()[-2:] == ["hostagent.py", "serve"]:
                # Sent as often as there are notices; a second TERM would end the run's part on this host.
                process.send_signal(signal.SIGUSR1)
                count += 1
        except psutil.Error:
            # It has ended, or is another user's.
            continue
    return count
