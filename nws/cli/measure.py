"""`nws measure`: run this host's sensors once, for some rounds, or periodically."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nws.base.errors import UsageError
from nws.base.notes import note
from nws.cli.common import echo_json, json_option, series_document, store_option

if TYPE_CHECKING:
    from nws.client import LocalWeather
    from nws.series import Measurement


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=1, show_default=True, help="Rounds to measure.")
@click.option(
    "--interval", type=click.FloatRange(min=0), default=1.0, show_default=True, help="Seconds between rounds."
)
@click.option("--every", type=click.FloatRange(min=0.1), help="Measure at this period, in seconds, instead.")
@click.option(
    "--for", "lasting", type=click.FloatRange(min=0), help="With --every: end after so many seconds."
)
@store_option
@json_option
@click.pass_context
def measure(
    context: click.Context,
    *,
    rounds: int,
    interval: float,
    every: float | None,
    lasting: float | None,
    store: Path | None,
    as_json: bool,
) -> None:
    """Measure CPU, memory and network of this host, and store the values.

    With --every it continues until --for has passed or Ctrl-C, and reports the number of lost runs.
    """
    from nws.client import LocalWeather

    if every is None and lasting is not None:
        raise UsageError(
            f"--for {lasting:g} needs --every; for a number of rounds use --rounds and --interval"
        )
    for name in ("rounds", "interval"):
        source = context.get_parameter_source(name)
        if every is not None and source is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name} and --every exclude each other; use --every with --for")
    with LocalWeather(store) as weather:
        if every is None:
            taken = weather.measure(rounds=rounds, interval_s=interval, notify=note)
            lost = None
        else:
            taken, lost = _periodically(weather, every, lasting)
    if as_json:
        echo_json(
            {
                "store": str(weather.path),
                "measurements": [series_document(m.series, t=m.t, value=m.value) for m in taken],
                "runs": lost,
            }
        )
    else:
        _table(taken)


def _periodically(
    weather: LocalWeather, every: float, lasting: float | None
) -> tuple[list[Measurement], dict[str, int]]:
    from nws.timing.periodic import Timetable

    last: list[Measurement] = []

    def job() -> None:
        last[:] = weather.measure(notify=note)

    table = Timetable(report=note)
    table.every("measure", job, every)
    try:
        tally = table.run(lasting)["measure"]
    except KeyboardInterrupt:
        note(str(table.tallies()["measure"]))
        raise
    note(str(tally))
    counts = ("due", "done", "failed", "missed", "skipped", "merged")
    return last, {name: getattr(tally, name) for name in counts}


def _table(taken: list[Measurement]) -> None:
    from nws.cli.tables import echo_table, quantity

    last = {m.series: m for m in taken}
    rows = [[str(s), quantity(m.value, s.resource.unit)] for s, m in last.items()]
    echo_table(["series", "value"], rows, numbers=[1])
