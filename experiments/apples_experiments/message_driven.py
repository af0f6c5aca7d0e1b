"""Message-driven coscheduling against uncoordinated time-sharing and batch: C2 to C6 (Yoo and Jette, section 3).

The paper's figures have no numbers but those in its text. The rows beside them are medians over the seeds. Only signs
and shapes are compared: the machine's speed and the benchmarks' traffic are taken from elsewhere or assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TypeVar

from apples.coscheduling.messagedriven import MessageDrivenConstants
from apples.coscheduling.policies import CoschedulingConstants
from apples_experiments.cluster.outcome import ClusterOutcome
from apples_experiments.cluster.workload import BspJob
from apples_experiments.coscheduled_runs import ClusterCase, run_cases
from apples_experiments.coscheduled_settings import MessageDrivenRuns, load_settings
from apples_experiments.message_driven_jobs import queue, workload
from apples_experiments.result import Curve, Figure, Progress, Result, Row

K = TypeVar("K")
UNCOORDINATED, DRIVEN = "uncoordinated", "message-driven"
#: The case of one job at a time, among the slices and degrees of Figure 4.
_BATCH = (0.0, 1)


def by_traffic(progress: Progress) -> Result:
    """Return C2: mean response of three workloads, Figure 2."""
    settings = load_settings().message_driven
    groups = {name: workload(settings, jobs) for name, jobs in settings.workloads.items()}
    change, seconds = _against_uncoordinated(settings, groups, progress)
    paper = {"heavy": -50.0, "light": 0.0}
    rows = [
        Row(name=f"mean response, {name} traffic", paper=paper.get(name), ours=value, unit="%")
        for name, value in change.items()
    ]
    return _result(
        settings,
        [*rows, *_second_rows(seconds)],
        _bars(
            "Mean response by workload (Figure 2)",
            ", ".join(f"{i}: {n}" for i, n in enumerate(groups)),
            seconds,
            None,
        ),
    )


def by_degree(progress: Progress) -> Result:
    """Return C3: mean response by degree of multiprogramming, Figure 3."""
    settings = load_settings().message_driven
    groups = {f"degree {degree}": workload(settings, jobs) for degree, jobs in settings.degrees.items()}
    change, seconds = _against_uncoordinated(settings, groups, progress)
    values = list(change.values())
    rows = [
        Row(
            name=f"mean response, {name}",
            paper=-85.0 if not i else None,
            ours=value,
            unit="%",
        )
        for i, (name, value) in enumerate(change.items())
    ]
    rows.append(
        Row(
            name="steps of the degree at which the gain falls",
            paper=float(len(values) - 1),
            ours=float(sum(b > a for a, b in pairwise(values))),
            unit="steps",
        )
    )
    return _result(
        settings,
        [*rows, *_second_rows(seconds)],
        _bars(
            "Mean response by degree (Figure 3)", "degree of multiprogramming", seconds, [*settings.degrees]
        ),
        (
            "The degree is that of the fullest node: the paper's Table 3 has five and six benchmarks at degrees "
            "4 and 5.",
        ),
    )


def queue_wait(progress: Progress) -> Result:
    """Return C4: mean wait of 98 short and two long jobs against batch, Figure 4."""
    settings = load_settings().message_driven
    queue_settings = settings.queue
    jobs = {seed: queue(settings, seed) for seed in settings.seeds}
    setups = {_BATCH: UNCOORDINATED} | {
        (s, d): DRIVEN for s in queue_settings.slices_s for d in queue_settings.degrees
    }
    cases = [
        _case(settings, _setup_label(s, d), jobs[seed], policy, seed)(
            slice_s=s or settings.slice_s,
            gmet_s=queue_settings.gmet_s,
            **({"at_once": 1} if (s, d) == _BATCH else {"degree": d}),
        )
        for (s, d), policy in setups.items()
        for seed in settings.seeds
    ]
    waits = _grouped(run_cases(cases, progress), list(setups), len(settings.seeds), lambda o: o.mean_wait_s)
    batch = waits.pop(_BATCH)
    change = {
        setup: median(100 * (w / b - 1) for w, b in zip(found, batch, strict=True))
        for setup, found in waits.items()
    }
    rows = _wait_rows(change, median(batch), queue_settings.slices_s, queue_settings.degrees)
    curves = tuple(
        Curve(
            label=f"slice {s:g} s",
            x=tuple(map(float, queue_settings.degrees)),
            y=tuple(median(waits[s, d]) for d in queue_settings.degrees),
        )
        for s in queue_settings.slices_s
    )
    batch_curve = Curve(label="batch", x=(1.0,), y=(median(batch),), style="points")
    return _result(
        settings,
        rows,
        Figure(
            title="Mean wait (Figure 4)",
            x_label="degree of multiprogramming",
            y_label="mean wait [s]",
            curves=(batch_curve, *curves),
        ),
        (
            "Batch runs one job at a time, first come first served, as the paper describes it; otherwise the next job "
            "starts as soon as there are enough nodes with fewer jobs than the degree.",
        ),
    )


def _wait_rows(
    change: Mapping[tuple[float, int], float],
    batch_s: float,
    slices_s: Sequence[float],
    degrees: Sequence[int],
) -> list[Row]:
    """Return the rows of C4.

    change: of the mean wait by slice and degree, percent
    batch_s: mean wait of batch
    """
    return [
        Row(name="mean wait, best of all settings", paper=-41.0, ours=min(change.values()), unit="%"),
        Row(
            name="settings that wait less than batch",
            paper=float(len(change)),
            ours=float(sum(value < 0 for value in change.values())),
            unit="settings",
        ),
        Row(
            name="steps of the degree at which the wait rises",
            paper=float(len(slices_s) * (len(degrees) - 1)),
            ours=float(sum(change[s, b] > change[s, a] for s in slices_s for a, b in pairwise(degrees))),
            unit="steps",
        ),
        Row(name="mean wait of batch", paper=None, ours=batch_s, unit="s"),
        *(
            Row(name=f"mean wait, slice {s:g} s, degree {d}", paper=None, ours=value, unit="%")
            for (s, d), value in change.items()
        ),
    ]


def _setup_label(slice_s: float, degree: int) -> tuple[str, ...]:
    return ("batch",) if (slice_s, degree) == _BATCH else (f"slice {slice_s:g} s", f"degree {degree}")


def gmet_sweep(progress: Progress) -> Result:
    """Return C5: the guaranteed minimum execution time, Figure 5."""
    settings = load_settings().message_driven
    gmet_sweep_settings = settings.gmet_sweep
    points = {
        gmet: MessageDrivenConstants(slice_s=gmet_sweep_settings.slice_s, gmet_s=gmet)
        for gmet in gmet_sweep_settings.gmets_s
    }
    curves = _sweep(settings, points, progress, "GMET")
    heavy, light, moderate = curves["heavy"], curves["light"], curves["moderate"]
    after = [heavy[g] for g in points if g >= settings.gmet_s]
    first = min(points)
    rows = [
        Row(
            name="heavy: 5 s over the shortest",
            paper=None,
            ours=heavy[settings.gmet_s] / heavy[first],
            unit="",
        ),
        Row(name="heavy: spread from 5 s on", paper=None, ours=max(after) / min(after), unit=""),
        Row(name="moderate: spread over all", paper=1.0, ours=_spread(moderate), unit=""),
        Row(name="light: spread over all", paper=1.0, ours=_spread(light), unit=""),
    ]
    return _result(
        settings,
        [*rows, *_sweep_rows(curves, "GMET")],
        _sweep_figure(curves, "Mean response by GMET (Figure 5)", "GMET [s]"),
    )


def slice_sweep(progress: Progress) -> Result:
    """Return C6: the time slice, Figure 6."""
    settings = load_settings().message_driven
    slice_sweep_settings = settings.slice_sweep
    points = {
        s: MessageDrivenConstants(slice_s=s, gmet_s=slice_sweep_settings.gmet_s)
        for s in slice_sweep_settings.slices_s
    }
    curves = _sweep(settings, points, progress, "slice")
    last = max(points)
    rows = [
        Row(
            name=f"{name}: {last:g} s over {settings.slice_s:g} s",
            paper=1.0 if name == "light" else None,
            ours=curve[last] / curve[settings.slice_s],
            unit="",
        )
        for name, curve in curves.items()
    ]
    return _result(
        settings,
        [*rows, *_sweep_rows(curves, "slice")],
        _sweep_figure(curves, "Mean response by time slice (Figure 6)", "time slice [s]"),
        ("The paper says that traffic makes it rise beyond 15 s and that without it nothing changes.",),
    )


def _case(
    settings: MessageDrivenRuns, label: tuple[str, ...], jobs: tuple[BspJob, ...], policy: str, seed: int
) -> Callable[..., ClusterCase]:
    """Return a case without its constants."""

    def make(
        *, slice_s: float, gmet_s: float, at_once: int | None = None, degree: int | None = None
    ) -> ClusterCase:
        constants = MessageDrivenConstants(slice_s=slice_s, gmet_s=gmet_s)
        return ClusterCase(
            label=(*label, policy, f"seed {seed}"),
            machine=settings.machine,
            jobs=jobs,
            policy=policy,
            seed=seed,
            constants=CoschedulingConstants(message_driven=constants),
            at_once=at_once,
            degree=degree,
        )

    return make


def _grouped(
    outcomes: list[ClusterOutcome], keys: list[K], count: int, figure: Callable[[ClusterOutcome], float]
) -> dict[K, list[float]]:
    return {key: [figure(o) for o in outcomes[i * count : (i + 1) * count]] for i, key in enumerate(keys)}


def _against_uncoordinated(
    settings: MessageDrivenRuns, groups: Mapping[str, tuple[BspJob, ...]], progress: Progress
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return by group the change of the mean response, percent; and by policy, then group, its seconds."""
    setups = [(name, policy) for name in groups for policy in (UNCOORDINATED, DRIVEN)]
    cases = [
        _case(settings, (name,), groups[name], policy, seed)(slice_s=settings.slice_s, gmet_s=settings.gmet_s)
        for name, policy in setups
        for seed in settings.seeds
    ]
    found = _grouped(run_cases(cases, progress), setups, len(settings.seeds), lambda o: o.mean_response_s)
    change = {
        name: median(
            100 * (driven / alone - 1)
            for driven, alone in zip(found[name, DRIVEN], found[name, UNCOORDINATED], strict=True)
        )
        for name in groups
    }
    seconds = {
        policy: {name: median(found[name, policy]) for name in groups} for policy in (UNCOORDINATED, DRIVEN)
    }
    return change, seconds


def _sweep(
    settings: MessageDrivenRuns,
    points: Mapping[float, MessageDrivenConstants],
    progress: Progress,
    what: str,
) -> dict[str, dict[float, float]]:
    """Return the mean response by workload, then point; seconds."""
    groups = {name: workload(settings, jobs) for name, jobs in settings.workloads.items()}
    setups = [(name, point) for name in groups for point in points]
    cases = [
        _case(settings, (name, f"{what} {point:g} s"), groups[name], DRIVEN, seed)(
            slice_s=points[point].slice_s, gmet_s=points[point].gmet_s
        )
        for name, point in setups
        for seed in settings.seeds
    ]
    found = _grouped(run_cases(cases, progress), setups, len(settings.seeds), lambda o: o.mean_response_s)
    return {name: {point: median(found[name, point]) for point in points} for name in groups}


def _spread(curve: Mapping[float, float]) -> float:
    return max(curve.values()) / min(curve.values())


def _second_rows(seconds: Mapping[str, Mapping[str, float]]) -> list[Row]:
    return [
        Row(name=f"{policy}, {name}", paper=None, ours=value, unit="s")
        for policy, groups in seconds.items()
        for name, value in groups.items()
    ]


def _sweep_rows(curves: Mapping[str, Mapping[float, float]], what: str) -> list[Row]:
    return [
        Row(name=f"{name}, {what} {point:g} s", paper=None, ours=value, unit="s")
        for name, curve in curves.items()
        for point, value in curve.items()
    ]


def _sweep_figure(curves: Mapping[str, Mapping[float, float]], title: str, x_label: str) -> Figure:
    return Figure(
        title=title,
        x_label=x_label,
        y_label="mean response [s]",
        curves=tuple(
            Curve(label=f"{name} traffic", x=tuple(curve), y=tuple(curve.values()))
            for name, curve in curves.items()
        ),
    )


def _bars(
    title: str, x_label: str, seconds: Mapping[str, Mapping[str, float]], x: list[int] | None
) -> Figure:
    return Figure(
        title=title,
        x_label=x_label,
        y_label="mean response [s]",
        curves=tuple(
            Curve(
                label=policy,
                x=tuple(map(float, x if x is not None else range(len(groups)))),
                y=tuple(groups.values()),
            )
            for policy, groups in seconds.items()
        ),
    )


def _result(
    settings: MessageDrivenRuns,
    rows: list[Row],
    figure: Figure,
    notes: tuple[str, ...] = (),
) -> Result:
    return Result(
        rows=tuple(rows),
        constants=settings.as_json(),
        seeds=settings.seeds,
        figure=figure,
        notes=("Medians over the seeds.", *notes),
    )
