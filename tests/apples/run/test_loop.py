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
    def make(*script, restartable=True, hosts=HOSTS, **resilience):
        resilience.setdefault("attempts", 3)
        return Desk(bench(*hosts, script=script), restartable, Resilience(**resilience))

    return make


def lost(host, how="was lost: its connection ended", at_iteration=None, file=None):
    """A launch in which a host is lost after a checkpoint was written, if one was."""

    def launch(request):
        if at_iteration is not None:
            file.write_text(str(at_iteration))
        return Outcome(
            ended="failed", exit_code=125, observed_s=7.0, message=f"{host} {how}", lost={host: how}
        )

    return launch


def test_run_that_ends_well_is_one_attempt(desk):
    d = desk(finished(2.0))
    record = d.run()
    assert record.outcome.finished
    document = d.decision.document(record)
    assert [a["number"] for a in document["attempts"]] == [1]
    assert document["observed_s"] == 2.0
    assert document["error"] is not None
    assert [kind for kind, _ in d.events] == ["attempt"]


def test_lost_host_is_dropped_and_the_rest_goes_on_from_the_checkpoint(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(lost("a3", at_iteration=600, file=file), finished(1.0), file=file, rule="iterations", every=200)
    record = d.run()
    first, second = d.launches
    assert first.command[2] == "run.ckpt 200 False"
    assert second.command[2] == "run.ckpt 200 True"
    assert (first.workload.iterations, second.workload.iterations) == (1000, 400)
    assert sorted(second.plan.hosts) == ["a1", "a2"]
    assert d.bench.platform.dropped == [{"a3": "was lost: its connection ended (attempt 1)"}]
    assert second.plan.predicted_s < first.plan.predicted_s
    said = "a3 was lost: its connection ended; 600 of 1000 iterations are safe; planning again without a3"
    assert f"{said} (attempt 2 of 3)" in d.bench.said
    assert [(a.first_iteration, a.iterations) for a in record.attempts] == [(0, 1000), (600, 400)]
    assert record.plan == first.plan
    assert record.outcome.observed_s > 1.0, "the whole takes longer than its last attempt"
    assert not record.whole
    (kept,) = d.bench.history.records()
    assert (kept.id, kept.attempts, kept.outcome) == (record.id, record.attempts, record.outcome)
    assert [kind for kind, _ in d.events] == ["attempt", "plan", "attempt"]
    document = d.decision.document(record)
    json.dumps(document, allow_nan=False)
    assert document["predicted_s"] == first.plan.predicted_s
    assert document["error"] is None
    assert document["attempts"][0]["lost"] == {"a3": "was lost: its connection ended"}
    assert {h["host"] for h in document["hosts"]} == {"a1", "a2"}
    assert not file.with_name(".run.ckpt.lock").exists()


def test_prices_of_the_first_plan_hold_for_the_rest(desk):
    d = desk(lost("a3"), finished(1.0))
    d.run()
    # Slabs of a third of the rows lie between two sizes. Those of a half would need a third size.
    assert [rows for _, _, rows in d.bench.platform.benchmarked] == [8, 16]


def test_without_checkpoints_it_begins_again(desk):
    d = desk(lost("a3"), finished(1.0), restartable=False)
    d.run()
    assert [launch.workload.iterations for launch in d.launches] == [1000, 1000]
    assert any("0 of 1000 iterations are safe" in line for line in d.bench.said)


def test_file_from_before_the_run_is_not_taken_for_its_own(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    file.write_text("800")
    d = desk(lost("a3"), finished(1.0), file=file, rule="iterations", every=200)
    d.run()
    assert [launch.workload.iterations for launch in d.launches] == [1000, 1000]
    assert f"{file} is there already and will be overwritten; --resume would go on from it" in d.bench.said


def test_damaged_file_is_told_and_not_used(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(
        lost("a3", at_iteration="rubbish", file=file), finished(1.0), file=file, rule="iterations", every=200
    )
    d.run()
    assert d.launches[1].command[2] == "run.ckpt 200 False"
    assert f"--checkpoint {file}: its header is damaged; beginning at the beginning" in d.bench.said


def test_going_on_from_a_file(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    file.write_text("750")
    d = desk(lost("a2"), finished(1.0), file=file, resume=True, rule="iterations", every=100)
    record = d.run()
    assert f"going on from {file}: 750 iterations are done" in d.bench.said
    assert [a.first_iteration for a in record.attempts] == [750, 750], "the file is still there"
    assert all(launch.command[2] == "run.ckpt 100 True" for launch in d.launches)


def test_going_on_from_nothing_begins_and_from_rubbish_does_not(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(finished(1.0), file=file, resume=True)
    assert d.run().attempts[0].first_iteration == 0
    assert f"there is no checkpoint {file} yet; beginning at the beginning" in d.bench.said
    file.write_text("rubbish")
    with pytest.raises(ConfigError, match="its header is damaged"):
        desk(file=file, resume=True).run()
    with pytest.raises(ConfigError, match="--resume: toy cannot go on from a checkpoint"):
        desk(file=file, resume=True, restartable=False).run()


def test_attempts_come_to_an_end(desk):
    d = desk(lost("a3"), lost("a2"), attempts=2)
    record = d.run()
    assert len(d.launches) == 2
    outcome = record.outcome
    assert (outcome.ended, outcome.exit_code) == ("failed", 125)
    assert outcome.message == "a2 was lost: its connection ended; this was attempt 2 of 2"


def test_one_attempt_is_as_if_there_were_no_loop(desk):
    d = desk(lost("a3"), attempts=1)
    assert d.run().outcome.message == "a3 was lost: its connection ended"
    assert d.bench.platform.dropped == []


def test_when_no_host_is_left_all_reasons_are_told(desk):
    d = desk(lost("a1"), hosts=HOSTS[:1])
    record = d.run()
    assert record.outcome.ended == "failed"
    assert record.outcome.exit_code == 3
    assert "a1 was lost: its connection ended; another attempt could not be made:" in (record.outcome.message)


def test_time_limit_is_that_of_all_attempts(desk):
    d = desk(lost("a3"), finished(1.0))
    d.run(time_limit_s=60.0)
    first, second = (launch.time_limit_s for launch in d.launches)
    assert first == 60.0
    assert second < first
    d = desk(lost("a3"), finished(1.0))
    over = d.run(time_limit_s=1.0).outcome
    assert (over.ended, over.exit_code, len(d.launches)) == ("time limit", 124, 1)
    assert over.message.endswith("the time limit left nothing for another attempt")


def test_error_of_the_application_ends_the_run_and_tells_what_is_safe(desk, tmp_path):
    file = tmp_path / "run.ckpt"

    def launch(request):
        file.write_text("400")
        status = RankStatus(rank=0, host="a1", exit_code=4, to_blame=True)
        return Outcome(
            ended="failed", exit_code=4, observed_s=1.0, statuses=(status,), message="rank 0 on a1 ended"
        )

    d = desk(launch, file=file)
    outcome = d.run().outcome
    assert outcome.exit_code == 4
    assert outcome.message == (
        f"rank 0 on a1 ended; 400 of 1000 iterations are safe; go on with --checkpoint {file} --resume"
    )


def test_file_of_ours_goes_with_success_and_what_killed_ranks_left_goes_always(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    left = tmp_path / ".run.ckpt.part"

    def launch(request):
        file.write_text("1000")
        left.touch()
        return finished(1.0)

    d = desk(launch, file=file, own=True, rule="iterations", every=100)
    d.run()
    assert list(tmp_path.glob("*.ckpt*")) + list(tmp_path.glob(".*.ckpt*")) == []


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


def test_interrupt_between_attempts_is_remembered(desk):
    d = desk(lost("a3"))
    decide = d.bench.agent.decide

    def interrupted(request, *, done=0, after=None):
        if after is not None:
            raise KeyboardInterrupt
        return decide(request, done=done)

    d.bench.agent.decide = interrupted
    with pytest.raises(KeyboardInterrupt):
        d.run()
    (record,) = d.bench.history.records()
    assert (record.outcome.ended, len(record.attempts)) == ("interrupted", 1)


def test_adapted_run_goes_on_however_often(desk, tmp_path):
    file = tmp_path / "run.ckpt"

    def adapted(at):
        def launch(request):
            file.write_text(str(at))
            return Outcome(ended="adapted", exit_code=143, observed_s=1.0)

        return launch

    d = desk(adapted(200), adapted(500), finished(1.0), attempts=1, file=file, rule="iterations", every=100)
    record = d.run()
    assert [a.first_iteration for a in record.attempts] == [0, 200, 500]
    assert d.bench.platform.dropped == []


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


def test_number_of_ranks_that_no_slots_are_left_for_becomes_a_limit(desk):
    d = desk(lost("a3"), finished(1.0))
    d.run(overrides={"ranks": 3})
    assert [len(launch.plan.assignments) for launch in d.launches] == [3, 2]
    kept = desk(lost("a3"), finished(1.0))
    kept.run(overrides={"ranks": 2})
    assert [len(launch.plan.assignments) for launch in kept.launches] == [2, 2]


def test_host_that_is_lost_after_the_last_iteration(desk, tmp_path):
    file = tmp_path / "run.ckpt"
    d = desk(lost("a3", at_iteration=1000, file=file), finished(1.0), file=file, rule="iterations", every=200)
    record = d.run()
    assert record.outcome.finished
    assert [(a.first_iteration, a.iterations) for a in record.attempts] == [(0, 1000), (1000, 0)]
    assert d.launches[1].command[2] == "run.ckpt 200 True"
    assert [r.id for r in d.bench.history.records()] == [record.id]


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("max_ranks 0 is too few"), 2), (StoreError("weather.db: cannot be read"), 4)],
)
def test_plan_that_cannot_be_made_for_the_rest_is_told(desk, error, code):
    d = desk(lost("a3"))
    decide = d.bench.agent.decide

    def refused(request, *, done=0, after=None):
        if after is not None:
            raise error
        return decide(request, done=done)

    d.bench.agent.decide = refused
    outcome = d.run().outcome
    assert outcome.exit_code == code
    assert outcome.message.endswith(f"another attempt could not be made: {error}")


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError("x"), 4), (ConfigError("x"), 2), (LaunchError("x"), 125), (OSError("x"), 125)],
)
def test_record_of_an_error_has_the_exit_code_of_the_command(error, code):
    assert outcome_of_error(error, 1.0).exit_code == code
