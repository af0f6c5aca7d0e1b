"""The rules of the house, held by tests: docstrings, imports, README's two commands, what ships.

Sizes, style and types are checked by `.ci/run`, with the tools tested here.
"""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("apples", "nws", "stencil_app")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def size_cap():
    return _load(ROOT / "scripts" / "size_cap.py")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _command(marker):
    """The one line in the first code block after a marker of README."""
    after = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"<!-- {marker} -->")[2]
    block = re.search(r"^```\w*\n(.*?)^```", after, re.MULTILINE | re.DOTALL)
    assert block, f"README.md has no code block after <!-- {marker} -->"
    (line,) = block[1].splitlines()
    return line


def test_cap_counts_code_and_not_docstrings(size_cap, tmp_path):
    def function(name, lines, docstring_lines=0):
        docstring = ['    """A', *["    b"] * (docstring_lines - 2), '    """'] if docstring_lines else []
        return [f"def {name}():", *docstring, *["    x = 1"] * (lines - 1)]

    path = tmp_path / "module.py"
    path.write_text("\n".join(function("fits", 60, 10) + function("long", 61) + ["y = 2"] * 300))
    assert list(size_cap.offenders(path)) == [
        f"{path}:1: module of 431 lines; the cap is 400",
        f"{path}:71: long has 61 lines; the cap is 60",
    ]
    assert size_cap.main([str(tmp_path)]) == 1
    path.write_text("x = 1\n")
    assert size_cap.main([str(tmp_path)]) == 0
    assert size_cap.main([str(tmp_path / "absent")]) == 2


def test_readme_has_the_two_commands_each_one_line():
    run, test = _command("run-command"), _command("test-command")
    for line in (run, test):
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert run.endswith(".venv/bin/apples-run 64")
    assert " -r requirements/ci.txt && " in test
    assert " --no-deps --no-build-isolation -e . -e ./experiments -e ./deploy && " in test
    assert test.endswith(".venv/bin/pytest -n 2 --dist worksteal --all")


@pytest.mark.parametrize("marker", ["run-command", "test-command"])
def test_ci_takes_both_commands_from_readme(marker):
    """The very extraction `.ci/run` does, on README as it is, and that it runs what it extracts."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extraction = re.search(r"^readme_line\(\) \{$.*?^\}$", script, re.MULTILINE | re.DOTALL)
    assert extraction
    result = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{extraction[0]}\nreadme_line {marker}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.rstrip("\n") == _command(marker)
    assert re.search(
        rf'^line=\$\(readme_line {marker}\)\n(check|start) .* bash -c "\$line"$', script, re.MULTILINE
    )


def test_distribution_is_what_the_documents_say(project):
    about = project["project"]
    assert about["name"] == "apples-grid"
    assert about["requires-python"] == ">=3.11"
    assert set(about["scripts"]) == {"apples-run", "apples", "nws", "stencil-app"}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert all(re.search(r"[<>=]", dependency) for dependency in about["dependencies"])


def test_version_stands_in_the_changelog(project):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {project['project']['version']}" in changelog


def test_what_is_imported_is_declared(project):
    """A direct import of something that only comes along with another package breaks when that one changes."""
    names = {"pyyaml": "yaml"}
    about = project["project"]
    extras = about["optional-dependencies"]
    declared = {
        re.split(r"[<>=\[]", d)[0]
        for d in (
            *about["dependencies"],
            *(one for e in ("app", "server", "plot", "pandas") for one in extras[e]),
        )
    }
    allowed = {names.get(d, d) for d in declared} | set(PACKAGES) | set(sys.stdlib_module_names)
    # The engine of a declared package, which pins it: numba's code is LLVM's.
    allowed |= {"llvmlite"}
    imported = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                tops = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                tops = [(node.module or "").partition(".")[0]]
            else:
                continue
            imported.update(dict.fromkeys(tops, path))
    assert {top: path for top, path in imported.items() if top not in allowed} == {}


def test_shipped_configuration_is_named_in_the_documents():
    told = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [p.name for p in sorted((ROOT / "configs").glob("*.yaml")) if p.name not in told] == []


def test_rooms_import_only_whom_they_may():
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists():
        pytest.skip("import-linter is not installed beside this Python; install the extra dev")
    # The verdict of another run must not answer for the files as they are now.
    result = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_architecture_page_has_the_contracts_packages():
    checker = _load(ROOT / "scripts" / "architecture.py")
    assert checker.problems(checker.PAGE.read_text(encoding="utf-8")) == []


def test_run_blocks_finds_each_shell_block(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n```sh\nls\n```\n```text\nx\n```\n<!-- not run: no host -->\n```sh\nssh a\n```\n")
    blocks = _load(ROOT / "scripts" / "run_blocks.py").blocks_of(page)
    assert [(b.line, b.text, b.reason) for b in blocks] == [(3, "ls\n", ""), (10, "ssh a\n", "no host")]


def test_structure_counts_circles_in_functions(tmp_path, monkeypatch):
    structure = _load(ROOT / "scripts" / "structure.py")
    package = tmp_path / "apples"
    package.mkdir()
    for name, text in {
        "__init__": "",
        "a": "import apples.b\n",
        "b": "def f():\n    from apples import a\n",
    }.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(structure, "ROOT", tmp_path)
    assert structure.circles(structure.read_modules()) == [["apples.a", "apples.b"]]


def test_check_script_is_sound_bash():
    bash = shutil.which("bash")
    assert bash
    subprocess.run([bash, "-n", ROOT / ".ci" / "run"], check=True)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_slow_file_names_tests_that_are_there():
    functions = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    names = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").split()
    # Inherited by the tests of each platform, and by the state machines of hypothesis.
    contract = ast.parse((ROOT / "apples" / "testing" / "platformcontract.py").read_text(encoding="utf-8"))
    inherited = {node.name for node in ast.walk(contract) if isinstance(node, ast.FunctionDef)} | {"runTest"}
    assert [n for n in names if n not in functions and n.rpartition("::")[2] not in inherited] == []
