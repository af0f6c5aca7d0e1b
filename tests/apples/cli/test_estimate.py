"""`apples estimate`: a history in, an estimate out, and a submit command filled in. Slurm is two small scripts here."""

import os
import sys

import pytest

from tests.transcripts import GOLDEN

#: Twenty jobs of ann: half of them half an hour, half of them an hour and a half, of four hours asked for.
HISTORY = GOLDEN / "apples" / "cli" / "inputs" / "history.txt"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Fakes of sacct and sbatch on PATH: the one prints what the test says, the other what it was given."""
    folder = tmp_path / "slurm"
    folder.mkdir()

    def install(name, body):
        path = folder / name
        path.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
        path.chmod(0o755)

    install("sbatch", "print(' '.join(sys.argv[1:]))")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return install


def asked(run, *arguments, **more):
    return run("apples", "estimate", "--walltime", "4:00:00", *arguments, **more)


def test_submit_command_is_filled_in(run, run_apart, slurm):
    mine = ("--user", "ann", "--project", "sun", "--trace", HISTORY)
    done = asked(run, *mine, "--dry-run", "--", "sbatch", "-n", "4", "my job.sh")
    assert done.out == "sbatch --time=240 --time-min=120 -n 4 'my job.sh'\n"
    # It becomes the command.
    done = asked(run_apart, *mine, "--", "sbatch", "-n", "4", "job.sh")
    assert (done.code, done.out) == (0, "--time=240 --time-min=120 -n 4 job.sh\n")


def test_history_of_this_site(run, slurm):
    log = HISTORY.read_text().replace("2026-05", "2098-01")
    slurm("sacct", f"assert 'SACCT_FORMAT' not in os.environ\nprint({log.strip()!r})")
    done = asked(run, "--user", "ann", "--project", "sun", SACCT_FORMAT="jobid")
    assert done.out.startswith("estimate 2 h of 4 h requested"), done.err


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "sys.exit('Slurm accounting storage is disabled')",
            "sacct failed with exit code 1 (Slurm accounting",
        ),
        ("sys.exit(3)", "sacct failed with exit code 3 (no reason given)"),
        ("print('JobIDRaw|User')", "sacct: no column Account, Submit"),
    ],
)
def test_site_that_cannot_say(run, slurm, body, message):
    slurm("sacct", body)
    done = asked(run)
    assert done.code == 2
    assert message in done.err
