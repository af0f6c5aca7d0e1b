"""`apples app`, `apples pieces` and `apples-run --app FILE`: a user's own program, and how it can be wrong."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from apples.applications.appfile import read_application
from apples.cli.run import run
from apples.cli.toolbox import toolbox
from apples.errors import ConfigError, LaunchError, ProgramNotFound
from tests.transcripts import text_of

EXAMPLES = Path(__file__).parents[3] / "examples"
FAKE_SSH = Path(__file__).parents[1] / "hosts" / "fake_ssh.sh"
MPICC = Path(sys.executable).with_name("mpicc")
#: What the directory of the wave example has, and a check leaves.
FILES = {"wave2d", *(path.name for path in (EXAMPLES / "wave-c").iterdir())}


def called(command, *words):
    """The result of a command in this process; its error is raised."""
    return CliRunner().invoke(
        command, [str(word) for word in words], catch_exceptions=False, standalone_mode=False
    )


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A program `trap` in PATH and beside its application file, which leaves a mark when it is started."""
    mark = tmp_path / "started"
    for program in (tmp_path / "bin" / "trap", tmp_path / "trap"):
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {mark}\n")
        program.chmod(0o755)
    for name in ("trap.yaml", "grid.yaml"):
        (tmp_path / name).write_text(text_of(f"apples/cli/inputs/{name}"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return mark


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """The directory of the wave example, its program compiled by this environment's MPI."""
    if not MPICC.exists() or shutil.which("gcc") is None:
        pytest.skip("no C compiler for the MPI of this environment")
    directory = tmp_path_factory.mktemp("wave")
    shutil.copytree(EXAMPLES / "wave-c", directory, dirs_exist_ok=True)
    command = [MPICC, "-O2", "-o", "wave2d", "wave2d.c"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"the MPI of this environment cannot compile: {done.stderr[:200]}")
    return directory


@pytest.fixture
def wave(compiled, tmp_path, tmp_path_factory, monkeypatch, library):
    """A copy of the wave example in the current directory, small enough for tests; all tests have the same path."""
    directory = tmp_path_factory.getbasetemp() / "wave"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(compiled, directory)
    text = (directory / "wave2d.yaml").read_text().replace('"2000"', '"{{ nx }}"')
    more = "parameters: {nx: 2000}\nfiles: {in/pieces.txt: \"{{ rows | join(' ') }}\"}\n"
    (directory / "wave2d.yaml").write_text(text.replace("500 ", "200 ") + more)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return directory


@pytest.fixture
def checked(wave, state_of_its_own, tmp_path_factory):
    """The wave example after `apples app check`, which runs once in a session."""
    kept, state = tmp_path_factory.getbasetemp() / "wave-state", state_of_its_own
    if kept.exists():
        shutil.copytree(kept, state, dirs_exist_ok=True)
    else:
        done = called(toolbox, "app", "check", "wave2d.yaml", 64, "--json")
        assert {path.name for path in wave.iterdir()} == FILES
        kept.mkdir()
        (kept / "check.json").write_text(done.stdout)
        # Some of it is still in the write-ahead log of a connection of this process.
        with closing(sqlite3.connect(state / "history.db")) as connection:
            connection.execute("VACUUM INTO ?", (str(kept / "history.db"),))
        shutil.copy(state / "fingerprints.key", kept)
        shutil.copy(kept / "check.json", state)
    return wave


def test_check_over_hosts_measures_messages_between_them(wave, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").symlink_to(FAKE_SSH)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    words = ("wave2d.yaml", 64, "--launcher", "ssh", "-H", "alpha:1,beta:1")
    found = json.loads(called(toolbox, "app", "check", *words, "--json").stdout)["benchmarks"]
    (alone,) = next(iter(found.values()))
    assert 0 < alone["message_cpu_s"] < 0.01
    assert alone["messages"] == 2


def test_grid_file_never_starts_a_program(trap):
    done = called(run, 64, "--grid", "grid.yaml", "--app", "trap", "--dry-run", "--json")
    assert json.loads(done.stdout)["application"] == "trap"
    assert not trap.exists()
    with pytest.raises(ProgramNotFound, match="it has no program to start"):
        called(run, 64, "--grid", "grid.yaml", "--app", "trap")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [(run, ("64", "--dry-run")), (toolbox, ("pieces", "64")), (toolbox, ("pieces", "64", "-q"))],
)
def test_dry_run_never_starts_a_users_program(trap, command, words):
    with pytest.raises(ConfigError, match=r"trap has not been measured .* apples app check trap\.yaml 64"):
        called(command, *words, "--app", "trap.yaml")
    assert not trap.exists()


def test_plan_from_python_starts_no_program(trap):
    import apples

    with pytest.raises(ConfigError, match="has not been measured"):
        apples.plan(64, app=Path("./trap.yaml"))
    assert not trap.exists()


def test_new_file_is_legal_and_never_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called(toolbox, "app", "new", "mine.yaml")
    entry = read_application("mine.yaml").entry
    assert (entry.name, entry.iterations.default) == ("mine", 1000)
    optional = [line.removeprefix("# ") for line in Path("mine.yaml").read_text().splitlines()]
    start = optional.index("#") + 2
    text = "\n".join(line for line in Path("mine.yaml").read_text().splitlines() if not line.startswith("#"))
    Path("all.yaml").write_text(text + "\n" + "\n".join(optional[start:]).replace("even", "argument") + "\n")
    assert read_application("all.yaml").entry.max_rows == 5000
    with pytest.raises(ConfigError, match=r"mine\.yaml: the file exists already"):
        called(toolbox, "app", "new", "mine.yaml")


def test_program_without_mpi_is_told(trap, library):
    with pytest.raises(LaunchError, match="0 of 1 ranks called MPI_Init"):
        called(toolbox, "app", "check", "trap.yaml", 8)


def test_missing_program_is_told(trap, library):
    Path("trap").unlink()
    with pytest.raises(ProgramNotFound, match="trap' does not exist"):
        called(toolbox, "app", "check", "trap.yaml", 8)


def test_check_then_run_learns(checked, state_of_its_own):
    (benchmarks,) = json.loads((state_of_its_own / "check.json").read_text())["benchmarks"].values()
    alone = benchmarks[0]
    assert alone["ranks"] == 1
    assert 0 < alone["seconds_per_row"] < 1e-3
    assert alone["messages"] == 2
    # Two fields of 2002 numbers of 8 bytes.
    assert alone["bytes_per_row"] == pytest.approx(32_032, rel=0.2)
    planned = json.loads(called(run, 64, "--app", "wave2d.yaml", "--dry-run", "--json").stdout)
    assert planned["application"] == "wave2d"
    ran = json.loads(called(run, 64, "--app", "wave2d.yaml", "--json", "-n", 2).stdout)
    assert (ran["ended"], ran["size"]) == ("finished", 64)
    assert ran["error"] is not None
    for rank in ran["hosts"]:
        assert rank["observed"]["iterations"] == 200
        assert 0 < rank["observed"]["compute_s"] < ran["observed_s"]
    assert {path.name for path in checked.iterdir()} == {*FILES, "in"}


def test_program_that_ignores_its_pieces_is_told(wave):
    text = (
        Path("wave2d.yaml")
        .read_text()
        .replace('--rows, "{{ rows | join', '--ny, "{{ size }}", --row, "{{ rows | join')
    )
    Path("wave2d.yaml").write_text(text)
    with pytest.raises(
        ConfigError, match=r"wave2d\.yaml: the program ignores its pieces: with 32, 96 rows its"
    ):
        called(toolbox, "app", "check", "wave2d.yaml", 64)


def test_iterations_that_change_nothing_are_told(wave):
    text = Path("wave2d.yaml").read_text().replace("--steps,", '--steps, "30", --unused,')
    Path("wave2d.yaml").write_text(text.replace("200 ", "20 "))
    with pytest.raises(LaunchError, match="too little to measure; check that its command passes"):
        called(toolbox, "app", "check", "wave2d.yaml", 64)


@pytest.mark.parametrize("key", ["prepare", "finish"])
def test_command_that_fails_ends_the_run(checked, tmp_path, key):
    Path("crash.sh").write_text("#!/bin/sh\necho no mesh in {{ size }}; exit 3\n")
    Path("crash.sh").chmod(0o755)
    with Path("wave2d.yaml").open("a") as file:
        file.write(f'{key}: [./crash.sh, "{{{{ size }}}}"]\n')
    stated = rf"{key}: .*crash.sh 64 failed with exit code 3; its output ended with: no mesh in .*; all of it is in .*"
    with pytest.raises(LaunchError, match=rf"{stated}/output/{key}-crash.sh.txt") as caught:
        called(run, 64, "--app", "wave2d.yaml")
    assert caught.value.exit_code == 125
    assert not list(tmp_path.glob("apples-*-*"))


def test_pieces_are_those_of_the_plan(checked):
    done = called(toolbox, "pieces", 64, "--app", "wave2d.yaml", "--format", "json", "-n", 2)
    document = json.loads(done.stdout)
    assert sum(document["rows"]) == 64
    assert document["ranks"] == 2
    import apples

    pieces = apples.plan(64, app="./wave2d.yaml", ranks=2).pieces
    assert sum(pieces.rows) == 64


def test_files_and_commands_are_in_the_directory(checked):
    with Path("wave2d.yaml").open("a") as file:
        file.write("prepare: [cp, in/pieces.txt, copied]\nfinish: [mv, copied, finished]\n")
    called(run, 64, "--app", "wave2d.yaml", "-n", 2, "-q")
    rows = Path("finished").read_text().split()
    assert sum(map(int, rows)) == 64
    assert Path("in/pieces.txt").read_text().split() == rows
    assert not Path("copied").exists()


KILLED = text_of("apples/cli/inputs/killed_program.txt")


@pytest.fixture
def killed(tmp_path, monkeypatch, library):
    """An application whose rank 0 is killed in iteration 50, after its checkpoint of iteration 40."""
    pytest.importorskip("mpi4py")
    monkeypatch.chdir(tmp_path)
    Path("killed.py").write_text(KILLED)
    Path("killed.yaml").write_text(
        "name: killed\niterations: 100\nbenchmark: {iterations: 5}\nmpi: mpich\n"
        "command: ['{{ python }}', killed.py, '0', '{{ iterations }}', \"{{ rows | join(',') }}\"]\n"
        "restart:\n  checkpoint: state\\.([0-9]+)\n"
        "  command: ['{{ python }}', killed.py, '{{ done }}', '{{ iterations }}', \"{{ rows | join(',') }}\"]\n"
    )
    # Checkpoints of an earlier run are none of this one.
    Path("state.80").write_text("80")
    os.utime("state.80", (1.0, 1.0))


def test_killed_program_goes_on_from_its_checkpoint(killed):
    done = called(run, 8, "--app", "killed.yaml", "-n", 2, "--attempts", 2, "--json")
    document = json.loads(done.stdout)
    assert document["ended"] == "finished"
    assert [each["first_iteration"] for each in document["attempts"]] == [0, 40]
    for file in ("finished.40", *Path().glob("state.*")):
        Path(file).unlink()

    # Without another attempt it is resumed on other pieces.
    ended = called(run, 8, "--app", "killed.yaml", "-n", 2)
    assert ended.return_value == 137
    assert "40 of 100 iterations are safe; go on with --resume" in ended.stderr
    with pytest.raises(
        ConfigError, match=r"the last run of killed was of size 8, and its checkpoints are not"
    ):
        called(run, 9, "--app", "killed.yaml", "--resume")
    with pytest.raises(
        ConfigError, match="killed writes its checkpoints itself, and goes on from the newest"
    ):
        called(run, 8, "--app", "killed.yaml", "--checkpoint", "own.ckpt")
    done = called(run, 8, "--app", "killed.yaml", "-n", 1, "--resume", "--json")
    assert json.loads(done.stdout)["first_iteration"] == 40
    assert Path("finished.40").exists()
