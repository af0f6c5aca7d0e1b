"""`apples drain HOST`: runs in progress leave the host, and later ones avoid it."""

import json
import time

import click

#: Seconds to wait for other commands that change the list.
WAIT_S = 10.0


@click.command()
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option("--for", "period", metavar="TIME", help="Only for so long, as in 2h (default: until --undo).")
@click.option("--undo", is_flag=True, help="Let runs use the hosts again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document of the drained hosts.")
def drain(hosts: tuple[str, ...], period: str | None, undo: bool, as_json: bool) -> None:
    """Drain hosts, named as runs name them; without HOST, list the drained ones.

    Runs of this state directory ($APPLES_STATE) that use a drained host leave it within seconds: its rows go to the
    others if the program can move rows (--adapt slabs), else the run goes on from its checkpoint without it. Later
    runs do not use it.
    """
    from apples.errors import ConfigError
    from apples.launching.filelock import locked
    from apples.model.drained import LONGEST, DrainedHost, DrainedHosts
    from nws.base.durations import parse_period
    from nws.base.files import make_private

    if not hosts and (undo or period):
        raise ConfigError(
            f"{'--undo' if undo else '--for'}: names no host; give one, or leave it out to list them"
        )
    if undo and period is not None:
        raise ConfigError("--undo and --for exclude each other; give one of them")
    now, store = time.time(), DrainedHosts()
    until = None if period is None else now + parse_period(period, what="--for")
    named = [DrainedHost(host=host, since=now, until=until) for host in hosts]
    if not all(one.legal for one in named):
        raise ConfigError(
            f"HOST, --for: expected names of 1 to {LONGEST} printable characters, and an end before the year 9999"
        )
    if hosts:
        make_private(store.path.parent)
        lock = store.path.with_suffix(".lock")
        with locked(lock, f"the list of drained hosts {store.path}", wait_s=WAIT_S):
            store.change(now, add=() if undo else named, remove=hosts if undo else ())
    found = store.at(now)
    if as_json:
        entries = [{"host": d.host, "since": d.since, "until": d.until} for d in found.values()]
        click.echo(json.dumps({"version": 1, "hosts": entries}))
        return
    click.echo("\n".join(f"{d.host} {d.reason()}" for d in found.values()) or "no host is drained")
