"""One run in as many attempts as it takes: who is dropped, what is safe, what is said, and when it ends."""

import json
import os

import pytest

from apples.errors import ConfigError, LaunchError
from apples.launching.filelock import locked
from apples.model.grid import Host
from apples.model.plan import Outcome, RankStatus
from apples.model.runrequest import Resilience, RunRequest
from apples.model.template import CheckpointFile, Deployment
from apples.run.loop import AttemptLoop, outcome_of_error
from apples.testing import finished
from nws.base.errors import StoreError
from tests.transcripts import recorded

HOSTS = [Host(name=f"a{k}", slots=1) for k in (1, 2, 3)]


def iterations_in(file, size, options, verified):
    """A checkpoint of tests says the iteration, in text."""
    text = file.read_text()
    if not text.isdigit():
        raise ConfigError(f"--checkpoint {file}: its header is damaged")
    return int(text)


CHECKPOINT = CheckpointFile(size_bytes=lambda size, options: 8.0 * size, iterations_in=iterations_in)


class Desk:
    """A bench with a run loop, its messages and its events."""

    def __init__(self, bench, toy, resilience):
        self.bench, self.events = bench, []
        base = type(bench.toy)

        class Restartable(base):
            checkpoint = CHECKPOINT

            def check(self, options):
                return None

            def start(self, rows, run_dir, options, *, keep=None, **more):
                kept = "" if keep is None else f"{keep.file.name} {keep.every} {keep.restart}"
                return Deployment(command=("toy", ",".join(map(str, rows)), kept))

        self.toy = Restartable() if toy else bench.toy
        self.resilience = resilience

    def loop(self, **more):
        settings = {"iterations": "1000"}
        request = RunRequest(
            size=30, template=self.toy, settings=settings, resilience=self.resilience, **more
        )
        return AttemptLoop(self.bench.agent, request, lambda kind, seen: self.events.append((kind, seen)))

    def decide(self):
        return self.loop().decide()

    def run(self, **more):
        loop = self.loop(**more)
        record = loop.run(loop.decide())
        self.decision = loop.decision
        return record

    @property
    def launches(self):
        return self.bench.platform.launcher.requests


@pytest.fixture
def desk(bench):
    def make(*script, restartable=True, hosts=3, **resilience):
        resilience.setdefault("attempts", 3)
        return Desk(bench(*HOSTS[:hosts], script=script), restartable, Resilience(**resilience))

    return make


LOST = "was lost: its connection ended"


def launch_of(words, file=None):
    """A launch told in words: `lost HOST`, `adapted`, `blame` or `finished`, and `: TEXT` of a checkpoint, if any."""
    how, _, text = words.partition(": ")
    how, *hosts = how.split()

    def launch(request):
        if text:
            file.write_text(text)
            file.with_name(f".{file.name}.part").touch()
        if how == "lost":
            return failed(exit_code=125, observed_s=7.0, message=f"{hosts[0]} {LOST}", lost={hosts[0]: LOST})
        if how == "blame":
            status = RankStatus(rank=0, host="a1", exit_code=4, to_blame=True)
            return failed(exit_code=4, observed_s=1.0, statuses=(status,), message="rank 0 on a1 ended")
        return finished(1.0) if how == "finished" else failed(ended="adapted", exit_code=143, observed_s=1.0)

    return launch


def failed(**given):
    return Outcome(**{"ended": "failed", **given})


def lines_of(d, record):
    for launch in d.launches:
        limit = "" if launch.time_limit_s is None else f", at most {launch.time_limit_s:g} s"
        shares = ", ".join(f"{a.host} {a.rows}" for a in launch.plan.assignments)
        yield f"{launch.workload.iterations} iterations on {shares}{limit} {' '.join(launch.command[2:])}".rstrip()
    yield from d.bench.said
    for attempt in record.attempts:
        yield f"attempt {attempt.number}: {attempt.iterations} iterations from {attempt.first_iteration}"
    yield f"{record.outcome.ended}, exit code {record.outcome.exit_code} {record.outcome.message}".rstrip()
    error = d.decision.document(record)["error"]
    yield f"error {'unknown' if error is None else 'known'}, events {[kind for kind, _ in d.events]}"
    yield f"dropped {d.bench.platform.dropped}"
    assert [kept.id for kept in d.bench.history.records()] == [record.id]


@recorded("apples/run/loops.txt", "why", "launches", "given")
def test_run_goes_as_recorded(desk, tmp_path, answered, why, launches, given):
    file, more = tmp_path / "run.ckpt", given.pop("run", {})
    if "before" in given:
        file.write_text(given.pop("before"))
    if given.pop("file", True):
        given |= {"file": file, "rule": "iterations", "every": 200}
    d = desk(*(launch_of(words, file) for words in launches), **given)
    try:
        lines = list(lines_of(d, d.run(**more)))
    except ConfigError as refusal:
        lines = [f"refused: {refusal}"]
    left = sorted(path.name for path in tmp_path.iterdir() if "ckpt" in path.name)
    answered([line.replace(f"{tmp_path}/", "") for line in [*lines, f"left {left}"]])


def test_run_whose_host_was_lost_is_kept_as_one_run(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(launch_of("lost a3: 600", file), finished(1.0), file=file, rule="iterations", every=200)
    record = d.run()
    first, second = d.launches
    assert second.plan.predicted_s < first.plan.predicted_s
    assert record.plan == first.plan
    assert record.outcome.observed_s > 1.0, "the whole takes longer than its last attempt"
    assert not record.whole
    (kept,) = d.bench.history.records()
    assert (kept.id, kept.attempts, kept.outcome) == (record.id, record.attempts, record.outcome)
    document = d.decision.document(record)
    json.dumps(document, allow_nan=False)
    assert document["predicted_s"] == first.plan.predicted_s
    assert document["attempts"][0]["lost"] == {"a3": LOST}
    assert {h["host"] for h in document["hosts"]} == {"a1", "a2"}
    assert not file.with_name(".run.ckpt.lock").exists()


def test_prices_of_the_first_plan_hold_for_the_rest(desk):
    d = desk(launch_of("lost a3"), finished(1.0))
    d.run()
    # Slabs of a third of the rows lie between two sizes. Those of a half would need a third size.
    assert [rows for _, _, rows in d.bench.platform.benchmarked] == [8, 16]


def test_time_limit_is_that_of_all_attempts(desk):
    d = desk(launch_of("lost a3"), finished(1.0))
    d.run(time_limit_s=60.0)
    first, second = (launch.time_limit_s for launch in d.launches)
    assert first == 60.0
    assert second < first
    d = desk(launch_of("lost a3"), finished(1.0))
    over = d.run(time_limit_s=1.0).outcome
    assert (over.ended, over.exit_code, len(d.launches)) == ("time limit", 124, 1)
    assert over.message.endswith("the time limit left nothing for another attempt")


def test_checkpoints_of_ours_that_nobody_went_on_with_are_forgotten(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(finished(1.0), file=file, own=True, rule="iterations", every=100)
    for name, days in (("old.ckpt", 31), ("young.ckpt", 29), ("mine.dat", 99)):
        (tmp_path / name).touch()
        written = d.bench.platform.time - days * 86400
        os.utime(tmp_path / name, (written, written))
    d.run()
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["mine.dat", "young.ckpt"]


def test_second_run_with_one_checkpoint_is_refused(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(file=file)
    with (
        locked(tmp_path / ".run.ckpt.lock", f"checkpoint {file}"),
        pytest.raises(
            LaunchError, match=r"^checkpoint .*run\.ckpt is in use by process \d+ of .*; wait for its end"
        ),
    ):
        d.run()
    assert d.launches == []


def without_another_plan(desk, error):
    """A run that loses a host, and whose plan for the rest raises an error."""
    d = desk(launch_of("lost a3"))
    decide = d.bench.agent.decide

    def failing(request, *, done=0, after=None):
        if after is not None:
            raise error
        return decide(request, done=done)

    d.bench.agent.decide = failing
    return d


def test_interrupt_between_attempts_is_remembered(desk):
    d = without_another_plan(desk, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        d.run()
    (record,) = d.bench.history.records()
    assert (record.outcome.ended, len(record.attempts)) == ("interrupted", 1)


def test_checkpoints_are_priced_into_the_plan(desk, tmp_path):
    d = desk(finished(1.0), file=tmp_path / "run.ckpt", rule="iterations", every=100)
    bare = desk(finished(1.0))
    decision = d.decide()
    assert decision.interval.count == 10
    assert decision.plan.predicted_s == pytest.approx(bare.decide().plan.predicted_s + 10 * 0.01)
    told = decision.document()["checkpoints"]
    assert (told["every"], told["count"], told["cost_s"]) == (100, 10, 0.01)


def test_youngs_rule_decides_whether_a_file_of_ours_is_worth_it(desk, tmp_path):
    short = desk(finished(1.0), file=tmp_path / "a.ckpt", own=True)
    decision = short.decide()
    assert decision.keep is None
    assert decision.notes[-1].startswith("no checkpoints: one every ")
    risky = desk(finished(1.0), file=tmp_path / "b.ckpt", own=True, mtbf_s=300.0)
    kept = risky.decide()
    assert kept.interval.mtbf_s == pytest.approx(100.0)
    # sqrt(2 · 0.01 s · 100 s) of work, 10 rows of 1 ms an iteration
    assert kept.keep.every == pytest.approx(141, abs=2)


def test_hosts_that_share_nothing_keep_nothing(desk, tmp_path):
    d = desk(finished(1.0), file=tmp_path / "a.ckpt", own=True, mtbf_s=300.0)
    d.bench.platform.storage_s = None
    assert d.decide().keep is None
    assert "not every host can write to the same" in d.decide().notes[-1]


def test_time_between_checkpoints_as_asked_for(desk, tmp_path):
    d = desk(finished(1.0), file=tmp_path / "a.ckpt", rule="time", every_s=2.0)
    decision = d.decide()
    assert decision.keep.every == pytest.approx(200, abs=2)


def test_run_that_may_be_ended_to_go_on_elsewhere_keeps_its_file_whatever_failures_cost(desk, tmp_path):
    d = desk(finished(1.0), file=tmp_path / "a.ckpt", own=True, needed=True)
    decision = d.decide()
    assert (decision.keep.every, decision.interval.count) == (None, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("max_ranks 0 is too few"), 2), (StoreError("weather.db: cannot be read"), 4)],
)
def test_plan_that_cannot_be_made_for_the_rest_is_told(desk, error, code):
    d = without_another_plan(desk, error)
    outcome = d.run().outcome
    assert outcome.exit_code == code
    assert outcome.message.endswith(f"another attempt could not be made: {error}")


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError("x"), 4), (ConfigError("x"), 2), (LaunchError("x"), 125), (OSError("x"), 125)],
)
def test_record_of_an_error_has_the_exit_code_of_the_command(error, code):
    assert outcome_of_error(error, 1.0).exit_code == code
