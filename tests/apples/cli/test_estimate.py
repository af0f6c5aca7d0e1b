"""`apples estimate`: a history in, an estimate out, and a submit command filled in. Slurm is two small scripts here."""

import json
import os
import sys

import pytest

from apples.simulation.batch.sacct import COLUMNS

ROWS = [
    f"{day}|ann|sun|2026-05-{day:02d}T08:00:00|2026-05-{day:02d}T08:00:00|2026-05-{day:02d}T0{8 + day % 2}:30:00"
    "|04:00:00|16|COMPLETED"
    for day in range(1, 21)
]
"""Twenty jobs of ann: half of them half an hour, half of them an hour and a half, of four hours asked for."""


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "history.txt"
    path.write_text("\n".join(["|".join(COLUMNS), *ROWS]))
    return path


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


def test_estimate_and_its_history(run, history):
    done = asked(run, "--user", "ann", "--project", "sun", "--trace", history, "--percentile", "40")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "estimate 2 h of 4 h requested: percentile 40 of 20 similar jobs (key triple)",
        "they used of their request (least, quarters, most): 12%, 12%, 38%, 38%, 38%; never less than 50% is taken",
    ]


def test_one_document(run, history, tmp_path):
    config = tmp_path / "queue.yaml"
    config.write_text("estimates: {floor: 0.1, percentile: 90}\n")
    done = asked(run, "--user", "ann", "--project", "sun", "--trace", history, "--config", config, "--json")
    found = json.loads(done.out)
    assert (found["estimate_s"], found["source"], found["similar"]) == (5400.0, "history", 20)
    assert found["used_of_request"]["50"] == 0.375


def test_stranger_keeps_the_request(run, history):
    done = asked(run, "--user", "zoe", "--trace", history)
    assert (
        done.out
        == "estimate 4 h of 4 h requested: 0 similar jobs are fewer than the 10 that an estimate needs\n"
    )
    assert json.loads(asked(run, "--user", "zoe", "--trace", history, "--json").out)["used_of_request"] == {}


def test_submit_command_is_filled_in(run, run_apart, history, slurm):
    mine = ("--user", "ann", "--project", "sun", "--trace", history)
    done = asked(run, *mine, "--dry-run", "--", "sbatch", "-n", "4", "my job.sh")
    assert done.out == "sbatch --time=240 --time-min=120 -n 4 'my job.sh'\n"
    # It becomes the command.
    done = asked(run_apart, *mine, "--", "sbatch", "-n", "4", "job.sh")
    assert (done.code, done.out) == (0, "--time=240 --time-min=120 -n 4 job.sh\n")


@pytest.mark.parametrize(
    ("more", "least", "why"),
    [
        ((), 210, "no run that is known took longer"),
        (("--percentile", "85"), 120, "the percentile that you named; jobs that run longer are ended there"),
        (("--user", "zoe"), 240, "the request"),
    ],
)
def test_estimate_least_time_of_a_job_covers_the_longest(run, history, slurm, more, least, why):
    rows = [row.replace("T09:30:00|04", "T11:30:00|04") if n == 0 else row for n, row in enumerate(ROWS)]
    history.write_text("\n".join(["|".join(COLUMNS), *rows]))
    mine = ("--user", "ann", "--project", "sun", "--trace", history, *more)
    done = asked(run, *mine, "--dry-run", "--", "sbatch", "job.sh")
    assert done.out == f"sbatch --time=240 --time-min={least} job.sh\n"
    assert f"--time-min={least}: {why}; Slurm may give the job no more" in done.err


@pytest.mark.parametrize(
    ("walltime", "minutes"), [("90", 90), ("1-00:00:00", 1440), ("1-12", 2160), ("2:00:00", 120)]
)
def test_estimate_walltime_is_read_as_slurm_does(run, history, slurm, walltime, minutes):
    words = ("estimate", "--walltime", walltime, "--trace", history, "--dry-run", "--", "sbatch", "x")
    assert run("apples", *words).out.startswith(f"sbatch --time={minutes} ")


def test_history_of_this_site(run, slurm):
    header = "|".join(COLUMNS)
    rows = "\n".join(row.replace("2026-05", "2098-01") for row in ROWS)
    slurm("sacct", f"assert 'SACCT_FORMAT' not in os.environ\nprint('''{header}\n{rows}''')")
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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--", "bsub", "x"], 2, "'bsub' is no submit command; legal are sbatch, salloc, srun"),
        (["--", "sbatch", "--time=5", "x"], 2, "'--time=5' is filled in from --walltime"),
        (["--", "srun", "x"], 127, "srun: no such program; is Slurm installed"),
    ],
)
def test_command_that_will_not_do(run, history, arguments, code, message):
    done = asked(run, "--trace", history, *arguments, PATH="/nowhere")
    assert done.code == code
    assert message in done.err


def test_no_slurm_and_no_log(run):
    done = asked(run, PATH="/nowhere")
    assert done.code == 2
    assert "no sacct here" in done.err
    done = run("apples", "estimate", "--walltime", "long", "--trace", "x")
    assert "--walltime 'long' is not a span of time" in done.err
