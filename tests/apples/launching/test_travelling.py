"""Programs that are sent to hosts: the standard library only, Python 3.8, and files that nobody else can change."""

from __future__ import annotations

import ast
import grp
import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import apples
from apples.hosts import travelling
from apples.hosts.frames import FromAgent, ToAgent, Unframer, frame
from nws.base import unpacking
from nws.base.files import untrusted, write_whole
from nws.base.sentprogram import BOOTSTRAP, framed, interpreter, with_imports

ROOT = Path(apples.__file__).parents[1]
OLD = [path for n in (8, 9, 10) for path in Path.home().glob(f".pyenv/versions/3.{n}.*/bin/python")][:1]
SENT = (with_imports(travelling.AGENT), with_imports((*travelling.AGENT, *travelling.CHECK)))


def imported(tree: ast.AST) -> set[str]:
    """Modules that are imported anywhere but for types."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            inner = {f"{node.module}.{name.name}" for name in node.names}
            known = {name for name in inner if (ROOT / f"{name.replace('.', '/')}.py").exists()}
            found |= known or {node.module}
        found |= imported(node)
    return found


@pytest.mark.parametrize("modules", SENT, ids=["agent", "check"])
def test_sent_modules_import_each_other_and_python_only(modules) -> None:
    needed: set[str] = set()
    for name in (*modules, "nws.base.unpacking"):
        text = (ROOT / f"{name.replace('.', '/')}.py").read_text()
        tree = ast.parse(text, feature_version=(3, 8))
        # What the parser cannot see, and was written by mistake before: methods and keywords of Python 3.9 and 3.10.
        new = (
            "strict=",
            ".removeprefix(",
            ".removesuffix(",
            ").readlink(",
            ".is_relative_to(",
            "waitstatus_to_",
        )
        assert [(name, word) for word in new if word in ast.unparse(tree)] == []
        needed |= imported(tree)
    ours = {name for name in needed if name.partition(".")[0] in ("apples", "nws")}
    assert {name.partition(".")[0] for name in needed - ours} <= sys.stdlib_module_names
    assert ours <= modules.keys()
    assert modules.keys() - ours <= {*travelling.AGENT, *travelling.CHECK}


def test_agent_fits_into_an_empty_pipe() -> None:
    assert len(framed(travelling.agent_program())) < 48 << 10


def checked(python: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    request = frame(ToAgent.CHECK, b'{"files": [], "disks": {}}')
    return subprocess.run(
        [python, "-I", "-S", "-c", BOOTSTRAP],
        input=framed(travelling.agent_program(travelling.CHECK)) + request,
        capture_output=True,
        env={"XDG_CACHE_HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"]},
    )


@pytest.mark.parametrize("python", [sys.executable, *map(str, OLD)])
def test_check_runs_without_installation(python, tmp_path) -> None:
    result = checked(python, tmp_path)
    assert result.returncode == 0, result.stderr
    ((kind, payload),) = Unframer(preamble=True).feed(result.stdout)
    assert kind == FromAgent.ANSWER
    facts = json.loads(payload)
    assert (facts["survey_error"], facts["versions"].keys()) == (None, {"python"})
    assert facts["survey"]["cpus"] >= 1


@pytest.mark.parametrize("python", [sys.executable, *map(str, OLD)])
def test_agent_runs_ranks_without_installation(python, tmp_path) -> None:
    run_dir = tmp_path / "run"
    setup = {
        "run_dir": str(run_dir),
        "token": "t",
        "directory": "/",
        "proxies": 1,
        "look_s": 1.0,
        "environment": {},
    }
    program = 'exec "$APPLES_PYTHON" -I -S "$APPLES_WRAPPER" "$@"'
    rank = ["/bin/sh", "-c", program, "sh", str(run_dir), "here:1", "--", "sh", "-c", "kill -USR1 $$"]
    orders = frame(b"J", json.dumps(setup).encode()) + frame(
        b"S", json.dumps({"id": 1, "command": rank}).encode()
    )
    agent = subprocess.Popen(
        [python, *travelling.agent_command()[5:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(framed(travelling.agent_program()) + orders)
    agent.stdin.flush()
    unframer = Unframer(preamble=True)
    frames: list[tuple[bytes, bytes]] = []
    while b"G" not in [kind for kind, _ in frames]:
        data = os.read(agent.stdout.fileno(), 1 << 16)
        assert data, frames
        frames += unframer.feed(data)
    agent.communicate(timeout=10)
    (last,) = [json.loads(text) for kind, text in frames if kind == b"T"][-1:]
    assert (last["signal"], last["ended_by"]) == (10, "itself")
    assert not run_dir.exists()


def test_damaged_files_in_the_cache_are_replaced(tmp_path) -> None:
    checked(sys.executable, tmp_path)
    (series,) = tmp_path.glob("apples/*/nws/series.py")
    whole = series.read_text()
    series.write_text("raise SystemExit(1)")
    assert checked(sys.executable, tmp_path).returncode == 0
    assert series.read_text() == whole
    assert (tmp_path / "apples").stat().st_mode & 0o777 == 0o700


def test_cache_that_others_may_write_is_not_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(unpacking.UNTRUSTED, "")
    (tmp_path / "apples").mkdir(mode=0o700)
    (tmp_path / "apples").chmod(0o770)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place, temporary = unpacking.unpacked({"a/b.py": "text"}, "digest", write_whole, untrusted)
    assert temporary
    assert Path(place, "a/b.py").read_text() == "text"
    shutil.rmtree(place)
    assert checked(sys.executable, tmp_path).returncode == 0
    assert [list(path.iterdir()) for path in tmp_path.iterdir()] == [[]]


def reopened(path: Path) -> None:
    path.chmod(0o777)


def given(path: Path) -> None:
    os.chown(path, 65533, 65533)


CHANGES = [reopened, pytest.param(given, marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"))]


@pytest.mark.covering("part", "change")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("part", ["caches", "caches/mine"])
def test_cache_that_others_may_replace_is_not_used(tmp_path, part, change) -> None:
    home = tmp_path / "caches/mine/home"
    home.mkdir(parents=True)
    change(tmp_path / part)
    result = checked(sys.executable, home)
    ((_, payload),) = Unframer(preamble=True).feed(result.stdout)
    assert json.loads(payload)["untrusted"] == [f"{home}/apples"]
    assert list((home / "apples").iterdir()) == []


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("part", ["", "envs", "envs/bin", "envs/bin/python", "base", "base/real"])
def test_interpreter_that_others_may_replace_is_not_run(tmp_path, monkeypatch, part, change) -> None:
    python, real = tmp_path / "envs/bin/python", tmp_path / "base/real"
    for path in (python, real):
        path.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\necho launcher\n")
    real.chmod(0o755)
    python.symlink_to("../../base/link")
    (tmp_path / "base/link").symlink_to(real)
    monkeypatch.setattr(sys, "executable", str(python))
    command = interpreter("-c", f"import os; print(os.environ.get({unpacking.UNTRUSTED!r}))")
    seen = [subprocess.run(command, capture_output=True, text=True, check=True).stdout]
    if part:
        change(tmp_path / part)
        seen.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert seen == ["launcher\n", f"{python}\n"][: len(seen)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("group", "users", "alone"),
    [
        ("root", "root:x:0:0", True),
        ("", "root:x:0:77", True),
        ("eve,root", "root:x:0:0", False),
        ("root", "root:x:0:0\neve:x:9:77", False),
        ("", "root:x:0:0", False),
        # users that are not listed may be members, too
        ("root", "eve:x:9:9", False),
    ],
)
def test_group_of_this_user_alone_may_write(tmp_path, monkeypatch, group, users, alone) -> None:
    python, getent = tmp_path / "python", tmp_path / "getent"
    python.write_text("#!/bin/sh\necho launcher\n")
    getent.write_text(f"#!/bin/sh\ncase $1 in group) echo 'team:x:77:{group}';; *) echo '{users}';; esac\n")
    getent.chmod(0o755)
    os.chown(python, 0, 77)
    python.chmod(0o775)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "executable", str(python))
    shown = subprocess.run(interpreter("-c", "print()"), capture_output=True, text=True, check=True).stdout
    assert (shown == "launcher\n") == alone
    listed = [line.split(":") for line in users.splitlines()]
    accounts = [SimpleNamespace(pw_name=name, pw_gid=int(gid)) for name, _, _, gid in listed]
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    members = SimpleNamespace(gr_mem=[name for name in group.split(",") if name])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: members)
    problem = (
        f"{python} has mode 0775 and owner 0 (root); chmod g-w {python}, as group 77 may have other members"
    )
    assert untrusted(python) == ("" if alone else problem)


def test_unused_modules_are_removed_after_a_month(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for digest in ("old", "new"):
        unpacking.unpacked({"a.py": ""}, digest, write_whole, untrusted)
    os.utime(tmp_path / "apples/old", (0, 0))
    unpacking.unpacked({"a.py": ""}, "new", write_whole, untrusted)
    assert [path.name for path in (tmp_path / "apples").iterdir()] == ["new"]


def test_cache_behind_a_symbolic_link_is_not_used(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(unpacking.UNTRUSTED, "")
    (tmp_path / "other/old").mkdir(parents=True)
    os.utime(tmp_path / "other/old", (0, 0))
    (tmp_path / "apples").symlink_to(tmp_path / "other")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place, temporary = unpacking.unpacked({"a.py": ""}, "digest", write_whole, untrusted)
    shutil.rmtree(place)
    assert temporary
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("cache", "digest"),
    [pytest.param("~/.cache", "digest", id="relative"), pytest.param("", "", id="not kept")],
)
def test_modules_elsewhere_leave_no_cache(tmp_path, monkeypatch, cache, digest) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", cache or str(tmp_path))
    place, temporary = unpacking.unpacked({"a.py": ""}, digest, write_whole, untrusted)
    shutil.rmtree(place)
    assert temporary
    assert not list(tmp_path.iterdir())


def test_modules_that_vanish_while_listed_are_skipped(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "listdir", lambda _: ["vanished", "digest"])
    assert unpacking.unpacked({"a.py": ""}, "digest", write_whole, untrusted) == (
        str(tmp_path / "apples/digest"),
        False,
    )
