"""Kept predictions of starts, by cluster and partition: one document of the state directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from apples.errors import HistoryError
from apples.launching.filelock import locked
from apples.model import jsonstore
from apples.model.jsonstore import Format
from apples.model.launchrequest import Notify
from apples.platforms.jobstarts import JudgedStart
from nws.base.files import make_private
from nws.base.oserrors import REASON, os_errors_as
from nws.client import state_dir

#: Predictions that are kept of a partition, the last ones.
MOST = 500
#: Seconds to wait for another command that writes.
_WAIT_S = 10.0

Kept = dict[str, dict[str, list[JudgedStart]]]


class _Document(Struct):
    """The content of the file."""

    clusters: Kept


FORMAT = Format(
    name="apples-starts",
    version=1,
    lost="ranges of starts are learned anew",
    content=_Document,
    what="table of starts by cluster",
)


def store_path() -> Path:
    """Return the path of the document, which need not exist."""
    return state_dir() / "starts.json"


def read(notify: Notify) -> Kept:
    """Return the predictions by cluster and partition. `notify` receives why a file cannot be used."""
    document = jsonstore.read(store_path(), FORMAT, notify)
    return {} if document is None else document.clusters


def keep(cluster: str, outcomes: Mapping[str, Sequence[JudgedStart]]) -> None:
    """Add predictions of one cluster to the document, as others may do now.

    Raises:
        HistoryError: it cannot be written.
        LaunchError: another process holds its lock for long.
    """
    path = store_path()
    with os_errors_as(HistoryError, f"{path}: cannot be written ({REASON})"):
        make_private(path.parent)
    with locked(path.with_suffix(".lock"), f"the table of starts {path}", wait_s=_WAIT_S):
        # The caller has reported a damaged file when it read it.
        clusters = read(lambda text: None)
        sections = clusters.setdefault(cluster, {})
        for name, new in outcomes.items():
            by_job = {outcome.job: outcome for outcome in (*sections.get(name, ()), *new)}
            sections[name] = sorted(by_job.values(), key=lambda outcome: outcome.at_s)[-MOST:]
        jsonstore.write(path, FORMAT, _Document(clusters=clusters))
