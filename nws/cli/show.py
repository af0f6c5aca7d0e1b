"""`nws show`: what is kept of every series, and how old it is."""

from __future__ import annotations

import time
from pathlib import Path

import click

from nws.cli.common import echo_json, existing, json_option, store_option


@click.command()
@click.option(
    "--stale-after",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Mark series whose last value is older than this many seconds.",
)
@store_option
@json_option
def show(*, stale_after: float, store: Path | None, as_json: bool) -> None:
    """List all series: unit, samples kept, last value and its age; stale ones are marked."""
    from nws.cli.tables import duration, echo_table, quantity
    from nws.memory import Memory

    with Memory(existing(store)) as memory:
        summaries = memory.summaries()
    now = time.time()
    ages = [max(now - s.last_t, 0.0) for s in summaries]
    if as_json:
        echo_json(
            {
                "store": str(memory.path),
                "series": [
                    {
                        "series": str(s.series),
                        "unit": s.series.resource.unit,
                        "samples": s.samples,
                        "last": s.last,
                        "measured_at": s.last_t,
                        "age_s": age,
                        "stale": age > stale_after,
                    }
                    for s, age in zip(summaries, ages, strict=True)
                ],
            }
        )
        return
    rows = [
        [
            str(s.series),
            str(s.samples),
            quantity(s.last, s.series.resource.unit),
            duration(age),
            "stale" if age > stale_after else "",
        ]
        for s, age in zip(summaries, ages, strict=True)
    ]
    echo_table(["series", "samples", "last", "age", ""], rows, numbers=[1, 2, 3])
