"""`nws insert FILE`: measurements of a file into a service or a store; with an invalid line, none of them.

A service receives batches, numbered within a stream that is named after the file's content. A file that was
interrupted, or is inserted twice, is therefore not stored twice. `nws.sources.csvfile` reads the file.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nws.base.command import FILE
from nws.base.errors import Refused, ServiceError, ServiceUnreachable, TooMany, UsageError, WeatherError
from nws.cli.common import echo_json, json_option
from nws.cli.forecastsource import TIMEOUT_S, with_endpoint
from nws.client import state_dir
from nws.client.endpoint import Endpoint, read_secret
from nws.series import Series
from nws.sources.csvfile import CsvColumns, read_columns

if TYPE_CHECKING:
    from nws.client.remote import ServiceClient
    from nws.memory import Memory

#: Measurements per batch: about 400 kB of JSON, well below servers' limits. Halved if a server takes less.
BATCH = 10_000

#: Seconds between progress lines of a long insertion.
_PROGRESS_S = 2.0

#: Maximum number of retries at a busy server.
_PATIENCE = 20


_Put = Callable[[CsvColumns, int, int], tuple[int, int, list[str]]]
"""Stores measurements `first` to `end` of the file; returns the number of new and of refused ones, and reasons."""


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--as-host", metavar="NAME", help="Write as this host, which may write only its own series.")
@click.option(
    "--key-file",
    type=FILE,
    help="With --as-host: file with the key that the service gave the host; default: the sensor's, if it ran here.",
)
@click.option("--check", is_flag=True, help="Only read the file and report its errors.")
@with_endpoint
@json_option
def insert(
    *,
    file: str,
    as_host: str | None,
    key_file: Path | None,
    check: bool,
    store: Path | None,
    endpoint: Endpoint | None,
    as_json: bool,
) -> None:
    """Add the measurements of FILE (- for standard input): lines of series, t (seconds since the epoch), value.

    FILE is in the format of `nws export`, plain or .gz. A series of another monitor is called x.… (x.power@alpha).
    If a line is invalid, nothing is stored and every invalid line is reported. A service with tokens needs an
    admin's token, or --as-host.
    """
    if endpoint is None and (as_host or key_file):
        raise UsageError(
            "--as-host and --key-file are for a service; name one with --server URL or NWS_SERVER"
        )
    if key_file is not None and as_host is None:
        raise UsageError(f"--key-file {key_file} needs --as-host with the host of that key")
    columns = read_columns(file, now=time.time())
    if as_host is not None:
        _refuse_foreign(columns, as_host)
    where = {} if check else _insert(columns, endpoint, store, as_host=as_host, key_file=key_file)
    document = {"measurements": len(columns), "series": len(columns.names), **where}
    if as_json:
        echo_json(document)
    else:
        click.echo(_sentence(file, document))
    if where.get("refused"):
        raise Refused(f"{where['refused']} of {len(columns)} measurements were refused")


def _insert(
    columns: CsvColumns,
    endpoint: Endpoint | None,
    store: Path | None,
    *,
    as_host: str | None,
    key_file: Path | None,
) -> dict[str, object]:
    source = f"{as_host or 'insert'}/{_digest(columns)}"
    if endpoint is None:
        from nws.client import weather_file
        from nws.memory import Memory

        with Memory(store or weather_file()) as memory:
            result = _in_batches(columns, partial(_put_into_store, memory, source))
            while memory.tend(budget_s=0.5):
                pass
            return {"store": str(memory.path), **result}
    from nws.client.remote import ServiceClient

    key = None if as_host is None else _key(as_host, key_file)
    with ServiceClient(
        endpoint.url, token=endpoint.token, ca=endpoint.ca, host=as_host, key=key, timeout_s=TIMEOUT_S
    ) as client:
        return {"server": client.url, **_in_batches(columns, partial(_put_into_service, client, source))}


def _in_batches(columns: CsvColumns, put: _Put) -> dict[str, object]:
    """Insert all batches in turn, with progress lines; halve a batch that is too large for the server."""
    at, size, inserted, refused = 0, BATCH, 0, 0
    logged_at = time.monotonic()
    while at < len(columns):
        end = min(at + size, len(columns))
        try:
            new, bad, reasons = put(columns, at, end)
        except ServiceError as error:
            if error.status == 413 and size > 1:
                size //= 2
                continue
            text = _broken_off(error, at, len(columns))
            raise ServiceError.of(error.status, text, problems=error.problems) from error
        except ServiceUnreachable as error:
            raise ServiceUnreachable(_broken_off(error, at, len(columns))) from error
        at, inserted, refused = end, inserted + new, refused + bad
        for reason in reasons:
            click.echo(f"nws: refused: {reason}", err=True)
        if time.monotonic() - logged_at > _PROGRESS_S:
            logged_at = time.monotonic()
            click.echo(f"nws: {at:,} of {len(columns):,} measurements", err=True)
    return {"inserted": inserted, "present": len(columns) - inserted - refused, "refused": refused}


def _broken_off(error: WeatherError, at: int, total: int) -> str:
    if not at:
        return str(error)
    return f"{error}\n{at} of {total} measurements were delivered; insert the same file again to continue from there"


def _put_into_service(
    client: ServiceClient, source: str, columns: CsvColumns, first: int, end: int
) -> tuple[int, int, list[str]]:
    """Send one request; wait if the server limits the rate."""
    from nws.messages.fieldtypes import understood
    from nws.messages.weatherdocuments import PutReceipt

    places: dict[int, int] = {}
    index = [places.setdefault(i, len(places)) for i in columns.index[first:end]]
    batch = {
        "source": source,
        "first": first,
        "series": [columns.names[i] for i in places],
        "index": index,
        "t": columns.t[first:end].tolist(),
        "value": columns.value[first:end].tolist(),
    }
    answer = understood(PutReceipt, _patiently(lambda: client.put_batch(batch)), client.url)
    return answer.accepted, answer.refused.count, list(answer.refused.reasons)


def _patiently(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    for _ in range(_PATIENCE):
        try:
            return ask()
        except TooMany as error:
            if error.retry_after_s is None:
                raise
            time.sleep(min(error.retry_after_s, 60.0))
    return ask()


def _put_into_store(
    memory: Memory, source: str, columns: CsvColumns, first: int, end: int
) -> tuple[int, int, list[str]]:
    """Store one batch in one transaction; its values were checked when the file was read."""
    import numpy as np

    from nws.memory import Delivery

    delivery = Delivery(
        source=source,
        first=first,
        ids=memory.series_ids(columns.names)[np.array(columns.index[first:end])],
        times=np.array(columns.t[first:end]),
        values=np.array(columns.value[first:end]),
        received=time.time(),
    )
    (receipt,) = memory.deliver([delivery])
    return receipt.kept, 0, []


def _digest(columns: CsvColumns) -> str:
    """Return the name of the stream, which depends only on the measurements."""
    digest = hashlib.sha256("\n".join(columns.names).encode())
    for column in (columns.index, columns.t, columns.value):
        digest.update(column.tobytes())
    return digest.hexdigest()[:32]


def _refuse_foreign(columns: CsvColumns, host: str) -> None:
    foreign = [name for name in columns.names if Series.parse(name).host != host]
    if foreign:
        more = f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""
        raise UsageError(
            f"--as-host {host}: {', '.join(foreign[:5])}{more} of other hosts; a host writes its own series only "
            "(of a pair, those that begin at it)"
        )


def _key(host: str, key_file: Path | None) -> str | None:
    """Return the host's key, None without a key file; then an admin's token is sufficient."""
    if key_file is not None:
        return read_secret(key_file, "key")

    sensor_key = state_dir() / f"sensor-{host}.key"
    return read_secret(sensor_key, "key") if sensor_key.exists() else None


def _sentence(file: str, document: dict[str, object]) -> str:
    where = "standard input" if file == "-" else file
    what = f"{where}: {document['measurements']} measurements of {document['series']} series"
    if "inserted" not in document:
        return f"{what}, no errors"
    present = f", {document['present']} were there already" if document["present"] else ""
    refused = f", {document['refused']} refused" if document["refused"] else ""
    return f"{what}: {document['inserted']} inserted{present}{refused}"
