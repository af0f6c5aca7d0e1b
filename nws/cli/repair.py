"""`nws repair`: keep the sound rows of a damaged store."""

from pathlib import Path

import click

from nws.cli.common import echo_json, existing, json_option, store_option


@click.command()
@store_option
@json_option
def repair(*, store: Path | None, as_json: bool) -> None:
    """Replace the store by its sound rows, and print the losses. No program may use it meanwhile.

    The damaged file is kept beside it, as NAME.damaged-N; so are the last two older ones. Roll-ups are made anew from
    samples where they can be. It needs room for a second file.
    """
    from nws.memory.salvage import repair as salvage
    from nws.service.lock import store_lock

    path = existing(store)
    with store_lock(path):
        report = salvage(path)
    if as_json:
        echo_json(
            {
                "store": str(path),
                "series": report.series,
                "samples": report.samples,
                "lost": report.lost,
                "damaged_file": report.aside,
            }
        )
        return
    for line in report.lost:
        click.echo(f"lost: {line}")
    click.echo(f"{path}: {report.samples} samples of {report.series} series; the old file is {report.aside}")
