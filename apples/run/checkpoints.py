"""The checkpoint of one run: its file, interval, progress and owner.

The interval is decided in `apples.run.intervals`; here it meets history, files and the platform. A file that existed
before the run, or that is damaged or of another run, is never resumed from without a message.
"""

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from apples.costs.store import History
from apples.errors import ConfigError
from apples.model.launchrequest import Notify
from apples.model.plan import Outcome, Record
from apples.model.runrequest import Resilience, RunRequest
from apples.model.template import Checkpointing
from apples.platforms.platform import Platform
from apples.run import intervals
from apples.run.agent import Decision
from apples.run.intervals import Interval
from apples.run.remaining import checkpoints_in, iteration_s, with_overhead
from nws.base.durations import format_seconds
from nws.base.sealed import fingerprints

#: Runs from which costs and failure rates are learnt.
_NEWEST = 200

#: Seconds that a checkpoint in our own directory is kept if the run is not resumed.
KEPT_S = 30 * 86400.0

#: Most seconds by which clocks of hosts and of file servers may differ.
_SKEW_S = 2.0

Signature = tuple[int, int, int]


class Checkpoints:
    """The checkpoint of one run."""

    def __init__(self, resilience: Resilience, platform: Platform, history: History) -> None:
        self.resilience = resilience
        self._platform, self._history = platform, history
        #: Whether ranks write files; otherwise an outcome has the iterations that are safe.
        self._writes = platform.starts_programs
        self._strange: Signature | None = None
        #: Checkpoints of a user's program that are no work of this run, and those that it may resume from.
        self._earlier: Mapping[int, tuple[int, int]] = {}
        self._resumable: Mapping[int, tuple[int, int]] = {}
        self._tried_s: float | None = None

    def resumed(self, request: RunRequest, notify: Notify) -> int:
        """Return iterations that need not be repeated; raises `ConfigError` for a file that cannot be resumed from."""
        file, template = self.resilience.file, request.template
        if self.resilience.resume and template.restart is not None:
            return self._resumed_itself(request, template.restart(), notify)
        if not self.resilience.resume or file is None:
            return 0
        if template.checkpoint is None:
            raise ConfigError(f"--resume: {template.name} cannot go on from a checkpoint; leave it out")
        if not file.exists():
            notify(f"there is no checkpoint {file} yet; beginning at the beginning")
            return 0
        done = template.checkpoint.iterations_in(file, request.size, request.settings, True)
        notify(f"going on from {file}: {done} iterations are done")
        return done

    def _resumed_itself(
        self, request: RunRequest, found: Mapping[int, tuple[int, int]], notify: Notify
    ) -> int:
        """Return iterations in the newest checkpoint that the program wrote in the last run like this one."""
        begun_at = begun(request, self._history.records(application=request.template.name, newest=_NEWEST))
        mine = {done for done, (_, changed_ns) in found.items() if changed_ns / 1e9 >= begun_at - _SKEW_S}
        self._resumable = {done: found[done] for done in mine}
        total = request.template.workload(request.size, request.settings).iterations
        if total in mine:
            raise ConfigError(
                f"--resume: the last run has done all {total} iterations; give more, or leave it out"
            )
        done = newest_whole(self._resumable, {}, total)
        if not done:
            notify("the last run has left no checkpoint; beginning at the beginning")
        else:
            notify(f"going on from the program's checkpoint: {done} of {total} iterations are done")
        return done

    def added(self, request: RunRequest, decision: Decision, notify: Notify) -> Decision:
        """Return the decision with its checkpoints, priced.

        Without, where none are wanted or worth it, or none can be.
        """
        file, checkpoint = self.resilience.file, request.template.checkpoint
        if file is None or checkpoint is None:
            return decision
        restart = decision.first_iteration > 0
        size_bytes = checkpoint.size_bytes(request.size, request.settings)
        measured_s = self._platform.checkpoint_s(file, size_bytes)
        if measured_s is None and self.resilience.own and not restart:
            note = (
                f"no checkpoints: not every host can write to the same {file.parent}; "
                "give --checkpoint FILE in a directory that all of them see"
            )
            return replace(decision, notes=(*decision.notes, note))
        interval = self._interval(request, decision, size_bytes, measured_s or 0.0)
        if interval.every is None and self.resilience.own and not (restart or self.resilience.needed):
            return replace(decision, notes=(*decision.notes, f"no checkpoints: {interval.why}"))
        keep = Checkpointing(file=file, every=interval.every, restart=restart)
        plan = with_overhead(decision.plan, interval.count * interval.cost_s)
        return replace(decision, plan=plan, keep=keep, interval=interval)

    def begin(self, request: RunRequest, decision: Decision, notify: Notify) -> None:
        """Remember the existing file, so that it is not mistaken for this run's."""
        restart = request.template.restart
        if restart is not None and self._writes:
            found = restart().items()
            self._earlier = {done: seen for done, seen in found if self._resumable.get(done) != seen}
        if decision.keep is None or not self._writes:
            return
        file = decision.keep.file
        if self.resilience.own:
            _forget(file.parent, self._platform.now() - KEPT_S)
        if not decision.keep.restart:
            self._strange = _signature(file)
            if self._strange is not None:
                notify(f"{file} is there already and will be overwritten; --resume would go on from it")

    def safe(self, request: RunRequest, decision: Decision, outcome: Outcome, notify: Notify) -> int:
        """Return iterations that are done for good after an attempt that did not end well; the file is verified."""
        if not self._writes:
            return decision.first_iteration + (outcome.kept_iterations or 0)
        if request.template.restart is not None:
            total = decision.first_iteration + decision.workload.iterations
            return newest_whole(request.template.restart(), self._earlier, total)
        try:
            return self._held(request, decision, verified=True)
        except ConfigError as error:
            # Remove the damaged file so that it is not found again.
            self._strange = None if decision.keep is None else _signature(decision.keep.file)
            notify(f"{error}; beginning at the beginning")
            return 0

    def finish(self, decision: Decision) -> None:
        """Remove our own file after a complete run."""
        if decision.keep is not None and self.resilience.own and self._writes:
            decision.keep.file.unlink(missing_ok=True)

    def advice(self, request: RunRequest, decision: Decision) -> str:
        """Return how to resume a run that did not end well; empty if no checkpoint is kept."""
        restart, total = request.template.restart, decision.first_iteration + decision.workload.iterations
        if restart is not None and self._writes:
            done = newest_whole(restart(), self._earlier, total)
            return f"{done} of {total} iterations are safe; go on with --resume" if done else ""
        try:
            done = self._held(request, decision, verified=False) if self._writes else 0
        except ConfigError:
            return ""
        if not done or decision.keep is None:
            return ""
        return f"{done} of {total} iterations are safe; go on with --checkpoint {decision.keep.file} --resume"

    def _held(self, request: RunRequest, decision: Decision, *, verified: bool) -> int:
        """Return iterations in the run's own file, 0 where it has none.

        Raises `ConfigError` for one that is damaged.
        """
        keep, checkpoint = decision.keep, request.template.checkpoint
        if keep is None or checkpoint is None:
            return 0
        if _signature(keep.file) in (None, self._strange):
            return 0
        return checkpoint.iterations_in(keep.file, request.size, request.settings, verified)

    def sweep(self) -> None:
        """Remove files left beside the checkpoint by ranks that were killed while writing one."""
        file = self.resilience.file
        if file is not None and self._writes:
            with contextlib.suppress(OSError):
                file.with_name(f".{file.name}.part").unlink(missing_ok=True)

    def _interval(
        self, request: RunRequest, decision: Decision, size_bytes: float, measured_s: float
    ) -> Interval:
        """Return the interval and its cost."""
        done, left = decision.first_iteration, decision.workload.iterations
        one_s = iteration_s(decision.plan, left)
        learnt_s = intervals.cost_from(self._history.launches(decision.key, _NEWEST), size_bytes)
        if self._tried_s is None:
            # The options of the first plan of a run hold for all its attempts.
            self._tried_s = measured_s
        cost_s = self._tried_s if learnt_s is None else learnt_s
        mtbf_s = None
        if self.resilience.rule == "iterations":
            every, why = self.resilience.every, "as asked for"
        elif self.resilience.rule == "time":
            asked_s = self.resilience.every_s or 0.0
            every, why = intervals.in_iterations(asked_s, one_s, left), f"every {format_seconds(asked_s)}"
        else:
            mtbf_s = self._mtbf_s(decision)
            work_s = intervals.interval_s(cost_s, mtbf_s)
            every = intervals.in_iterations(work_s, one_s, left)
            source = "written to try" if learnt_s is None else "of earlier runs"
            why = (
                f"one every {format_seconds(work_s)} loses least: it takes {format_seconds(cost_s)} ({source}), "
                f"and these hosts fail every {format_seconds(mtbf_s)}"
            )
        return Interval(
            every=every,
            size_bytes=size_bytes,
            cost_s=cost_s,
            count=checkpoints_in(done + left, done, every, at_end=True),
            mtbf_s=mtbf_s,
            why=why,
        )

    def _mtbf_s(self, decision: Decision) -> float:
        hosts = decision.plan.hosts
        if self.resilience.mtbf_s is not None:
            return self.resilience.mtbf_s / len(hosts)
        return intervals.mtbf_of(hosts, intervals.rates_from(self._history.launches(None, _NEWEST)))


def begun(request: RunRequest, records: Sequence[Record]) -> float:
    """Return when the last run of the application began, with those that it was resumed from; inf without any.

    Raises `ConfigError` if it had another size or other options.
    """
    begun_at, wanted = math.inf, (request.size, _fixed(fingerprints(request.settings)))
    for record in reversed([r for r in records if r.plan.application == request.template.name]):
        size, settings = record.plan.size, _fixed(record.options.get("settings", {}))
        if (size, settings) != wanted and begun_at == math.inf:
            given = f" with {', '.join(f'-s {name}=…' for name in settings)}" if settings else ""
            raise ConfigError(
                f"--resume: the last run of {record.plan.application} was of size {size}{given}, and its checkpoints "
                "are not of this run; give the same size and options, or leave --resume out"
            )
        if (size, settings) != wanted:
            break
        begun_at = record.started_at
        if not record.options.get("first_iteration"):
            break
    return begun_at


def _fixed(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a resumed run must share: more iterations are legal."""
    return {name: text for name, text in settings.items() if name != "iterations"}


def _signature(file: Path) -> Signature | None:
    """Return a value that differs for each writing of a file; None if it does not exist."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _forget(directory: Path, before: float) -> None:
    """Remove our checkpoints, and files beside them, that were last written before an instant."""
    for path in directory.glob("*.ckpt*"):
        # others may be doing the same
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()


def newest_whole(
    found: Mapping[int, tuple[int, int]], earlier: Mapping[int, tuple[int, int]], total: int
) -> int:
    """Return the iterations in the newest checkpoint that a user's program wrote in this run; 0 if there is none.

    A program that is killed while it writes leaves a short file: one that is smaller than the one before is not taken.

    Args:
        found: Iterations → size in bytes and time of change in ns.
        earlier: The same, before the run.
        total: Iterations of the run; a checkpoint of its end leaves nothing to go on with.
    """
    ours = sorted(done for done, seen in found.items() if 0 < done < total and earlier.get(done) != seen)
    if len(ours) > 1 and found[ours[-1]][0] < found[ours[-2]][0]:
        ours.pop()
    return ours[-1] if ours else 0
