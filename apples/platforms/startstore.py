"""Kept predictions of starts, by cluster and partition: one document of the state directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from apples.model import jsonstore
from apples.model.jsonstore import Format
from apples.model.launchrequest import Notify
from apples.platforms.jobstarts import JudgedStart
from nws.client import state_dir

#: Predictions that are kept of a partition, the last ones.
MOST = 500

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


def keep(kept: Kept, cluster: str, outcomes: Mapping[str, Sequence[JudgedStart]]) -> None:
    """Write the document with new predictions of one cluster; raise `HistoryError`."""
    sections = kept.get(cluster, {}) | {
        name: sorted(one, key=lambda outcome: outcome.at_s)[-MOST:] for name, one in outcomes.items()
    }
    jsonstore.write(store_path(), FORMAT, _Document(clusters=kept | {cluster: sections}))
