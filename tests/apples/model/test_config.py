"""Configurations are found by path, or by the name of a shipped one."""

import pytest

from apples.errors import ConfigError
from apples.model import config
from apples.model.config import find_config


def test_shipped_configurations_are_found_by_name_and_a_users_file_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config("centurion") == config.configs_dir() / "centurion.yaml"
    assert find_config("centurion.yaml") == config.configs_dir() / "centurion.yaml"
    own = tmp_path / "centurion.yaml"
    own.write_text("name: mine")
    assert find_config("centurion.yaml").resolve() == own


def test_configurations_inside_an_installed_package_are_found(tmp_path, monkeypatch):
    package = tmp_path / "apples"
    (package / "configs" / "mock").mkdir(parents=True)
    (package / "configs" / "mock" / "storm.yaml").write_text("name: storm")
    monkeypatch.setattr(config, "__file__", str(package / "model" / "config.py"))
    assert find_config("mock/storm") == package / "configs" / "mock" / "storm.yaml"


def test_unknown_configuration_lists_the_shipped_ones():
    with pytest.raises(ConfigError) as caught:
        find_config("centurian")
    message = str(caught.value)
    assert message.startswith(
        "centurian: no such file, and no configuration of that name is shipped (did you mean centurion?)"
    )
    assert "shipped are " in message
    assert all(name in message for name in ("centurion,", "local", "sharing", "two-sites"))
