"""Applications by path, by name, from Python files and from other packages."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from apples.applications import catalogue
from apples.applications.catalogue import find_user_application, known_names
from apples.errors import ConfigError
from apples.run.program import find_template
from tests.transcripts import recorded

FILE = """\
name: {name}
command: [./a, "{{{{ rows }}}}", "{{{{ iterations }}}}"]
iterations: 5
benchmark: {{iterations: 2}}
"""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Directories of APPLES_APPS and of the user's configuration."""
    shared, own = tmp_path / "shared", tmp_path / "config" / "apples" / "apps"
    for directory in (shared, own):
        directory.mkdir(parents=True)
    monkeypatch.setenv("APPLES_APPS", str(shared))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return shared, own


def test_name_is_found_in_both_directories(places):
    shared, own = places
    (shared / "one.yaml").write_text(FILE.format(name="first"))
    (own / "one.yaml").write_text(FILE.format(name="hidden"))
    (own / "two.yaml").write_text(FILE.format(name="second"))
    assert find_user_application("one").name == "first"
    assert find_user_application("two").name == "second"
    assert {"one", "two"} <= set(known_names())
    assert find_user_application("three") is None


def test_unknown_name_lists_all_applications(places):
    (places[0] / "wave.yaml").write_text(FILE.format(name="wave"))
    with pytest.raises(ConfigError, match=r"'wafe' \(did you mean wave\?\).* mhd3d, .*wave, or the path"):
        find_template("wafe", None, None)


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file"):
        find_template("nothing.yaml", None, None)
    with pytest.raises(ConfigError, match=r"nothing\.py: no such file"):
        find_template("./nothing.py", None, None)


def test_python_file_gives_its_template(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("from apples import applications\nAPPLICATION = applications.get('heat')\n")
    assert find_template(str(file), None, None).name == "heat"


@recorded("apples/applications/python_problems.txt", "text")
def test_python_file_without_template_is_an_error(tmp_path, answered, text):
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        find_template(str(file), None, None)
    answered(str(caught.value).replace(f"{tmp_path}/", ""))


def test_entry_point_may_name_a_file(tmp_path, monkeypatch):
    (tmp_path / "app.yaml").write_text(FILE.format(name="packed"))
    (tmp_path / "packed_app.py").write_text(f"FILE = {str(tmp_path / 'app.yaml')!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = EntryPoints([EntryPoint(name="packed", value="packed_app:FILE", group=catalogue.GROUP)])
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points.select(group=group))
    assert find_template("packed", None, None).name == "packed"
