"""Name, key and lock of a sensor."""

import os

import pytest

from nws.base.errors import StoreError, UsageError
from nws.daemon.identity import Identity, checked_host


def test_key_is_kept_for_the_next_start_and_for_nobody_else(tmp_path):
    with Identity("a.b", tmp_path / "state") as identity:
        made = identity.key()
        assert len(made) >= 32
        assert identity.key() == made
    with Identity("a.b", tmp_path / "state") as identity:
        assert identity.key() == made
        identity.keep("secret")
        identity.keep("secret two")
    with Identity("a.b", tmp_path / "state") as identity:
        assert identity.key() == "secret two"
    path = tmp_path / "state" / "sensor-a.b.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in path.parent.iterdir()) == ["sensor-a.b.key", "sensor-a.b.lock"]


def test_one_sensor_of_a_name_at_a_time(tmp_path):
    with Identity("a", tmp_path), Identity("b", tmp_path):
        with pytest.raises(StoreError) as caught:
            Identity("a", tmp_path)
        assert f"a sensor of a runs already, process {os.getpid()} of " in str(caught.value)
    Identity("a", tmp_path).close()


@pytest.mark.parametrize("name", ["", "-a", "a b", "a>b", "ä", "a" * 65, "a/b"])
def test_names_that_are_none(name):
    with pytest.raises(UsageError, match="is no name for a host or site: expected a letter or digit"):
        checked_host(name)


def test_state_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="set APPLES_STATE to a directory it may write to"):
        Identity("a", tmp_path / "file")


def test_key_that_cannot_be_read_or_kept(tmp_path):
    with Identity("a", tmp_path) as identity:
        (tmp_path / "sensor-a.key").mkdir()
        with pytest.raises(StoreError, match="the key of a cannot be read"):
            identity.key()
        with pytest.raises(StoreError, match=r"the key of a cannot be kept: .*make room"):
            identity.keep("x")
