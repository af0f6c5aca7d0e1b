"""The document of drained hosts: what holds when, and a damaged file."""

import pytest

from apples.errors import HistoryError
from apples.model.drained import DrainedHost, DrainedHosts


@pytest.fixture
def store(tmp_path):
    return DrainedHosts(tmp_path / "state" / "drained.json")


def test_drained_hosts_without_a_file_are_none(store):
    assert store.at(0.0) == {}


def test_drain_holds_until_its_time_or_undo(store):
    store.change(
        100.0, add=[DrainedHost(host="a", since=100.0), DrainedHost(host="b", since=100.0, until=150.0)]
    )
    reader = DrainedHosts(store.path)
    assert list(reader.at(149.0)) == ["a", "b"]
    assert list(reader.at(150.0)) == ["a"]
    store.change(160.0, add=[DrainedHost(host="c", since=160.0)], remove=["a"])
    assert list(reader.at(120.0)) == ["c"]


def test_reason_names_the_remedy():
    assert DrainedHost(host="a", since=1.0).reason() == "is drained (apples drain --undo a)"
    assert " until 19" in DrainedHost(host="a", since=1.0, until=5.0).reason()


@pytest.mark.parametrize(
    "hosts",
    [
        '"a"',
        '[{"host": "a", "since": "x"}]',
        '[{"host": "", "since": 1.0}]',
        '[{"host": "a", "since": 1.0, "until": 1e300}]',
        '[{"host": "a", "since": 1.0, "until": NaN}]',
        '[{"host": "a\\u001b", "since": 1.0}]',
    ],
)
def test_damaged_document_is_reported_once(store, hosts):
    store.path.parent.mkdir()
    store.path.write_text(f'{{"format": "apples-drained", "version": 1, "hosts": {hosts}}}')
    with pytest.raises(HistoryError, match=r"drained\.json: has no list of drained hosts; remove it"):
        store.at(1.0)
    notes = []
    tolerant = DrainedHosts(store.path, notes.append)
    assert tolerant.at(1.0) == tolerant.at(1.0) == {}
    assert len(notes) == 1
