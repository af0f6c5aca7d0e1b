"""`nws export [SERIES…]`: everything that is kept, as CSV that `nws score` reads, or JSON."""

from __future__ import annotations

from pathlib import Path

import click

from nws.cli.common import chosen, echo_json, existing, json_option, store_option


@click.command()
@click.argument("series", nargs=-1)
@store_option
@json_option
def export(*, series: tuple[str, ...], store: Path | None, as_json: bool) -> None:
    """Print all samples of each SERIES (all by default), oldest first: series, t (seconds since the epoch), value."""
    from nws.memory import Memory

    with Memory(existing(store)) as memory:
        history = memory.history().samples
    wanted = chosen(series, history)
    if as_json:
        echo_json(
            {
                "series": [
                    {
                        "series": str(s),
                        "unit": s.resource.unit,
                        "t": list(history[s].times),
                        "value": list(history[s].values),
                    }
                    for s in wanted
                ]
            }
        )
        return
    click.echo("series,t,value")
    for one in wanted:
        samples = history[one]
        for t, value in zip(samples.times, samples.values, strict=True):
            # repr is exact: what is read back is the very same number
            click.echo(f"{one},{t!r},{value!r}")
