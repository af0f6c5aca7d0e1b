"""The state directory, and which ones are refused."""

import os

import pytest

from nws.base.errors import StoreError
from nws.base.paths import state_dir


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_state_dir_writable_by_others_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(StoreError, match=f"mode {mode:04o}"):
        state_dir({"APPLES_STATE": str(tmp_path)})


def test_state_dir_that_others_can_replace_is_refused(tmp_path):
    state = tmp_path / "open" / "state"
    state.mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(StoreError, match="open has mode 0777"):
        state_dir({"APPLES_STATE": str(state)})
    (tmp_path / "open").chmod(0o1777)
    assert state_dir({"APPLES_STATE": str(state)}) == state


def test_state_dir_of_this_user_is_accepted(tmp_path):
    tmp_path.chmod(0o755)
    assert state_dir({"APPLES_STATE": str(tmp_path)}) == tmp_path
    assert state_dir({"APPLES_STATE": str(tmp_path / "new")}) == tmp_path / "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
def test_state_dir_of_another_user_is_refused(tmp_path):
    os.chown(tmp_path, 65534, 65534)
    for path in (tmp_path, tmp_path / "mine"):
        with pytest.raises(StoreError, match=r"owner 65534 \(nobody\); that stands for users unknown here"):
            state_dir({"APPLES_STATE": str(path)})
