"""`apples drain HOST`: runs in progress leave the host, and later ones avoid it."""

import json
import socket
import time
from dataclasses import replace

import click

#: Seconds to wait for other commands that change the list.
WAIT_S = 10.0
#: All providers serve metadata here, to processes of the machine only.
LINK_LOCAL = "http://169.254.169.254"


@click.command()
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option("--for", "period", metavar="TIME", help="Only for so long, as in 2h (default: until --undo).")
@click.option("--undo", is_flag=True, help="Let runs use the hosts again.")
@click.option(
    "--watch",
    metavar="SOURCE",
    help="Wait until aws, gcp, azure, slurm, kubernetes or a FILE announces this host's end (default HOST).",
)
@click.option(
    "--endpoint", metavar="URL", envvar="APPLES_METADATA", default=LINK_LOCAL, help="Metadata server."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document of the drained hosts.")
def drain(
    hosts: tuple[str, ...], period: str | None, undo: bool, watch: str | None, endpoint: str, as_json: bool
) -> None:
    """Drain hosts, named as runs name them; without HOST, list the drained ones.

    Runs of this state directory ($APPLES_STATE) that use a drained host leave it within seconds: its rows go to the
    others if the program can move rows (--adapt slabs), else the run goes on from its checkpoint without it. Later
    runs do not use it. With --watch, runs over ssh from elsewhere leave this host as well.
    """
    from apples.errors import ConfigError
    from apples.launching.filelock import locked
    from apples.model.drained import LONGEST, DrainedHost, DrainedHosts
    from nws.base.durations import parse_period
    from nws.base.files import make_private

    if watch is not None:
        from nws.base.paths import local_host

        # As runs name this host if their user gives no name.
        hosts = hosts or tuple({local_host(), socket.gethostname()})
    if not hosts and (undo or period):
        raise ConfigError(
            f"{'--undo' if undo else '--for'}: names no host; give one, or leave it out to list them"
        )
    if undo and (period or watch) is not None:
        raise ConfigError(
            f"--undo and {'--for' if period else '--watch'} exclude each other; give one of them"
        )
    now = time.time()
    until = None if period is None else now + parse_period(period, what="--for")
    named = [DrainedHost(host=host, since=now, until=until) for host in hosts]
    if not all(one.legal for one in named):
        raise ConfigError(
            f"HOST, --for: expected names of 1 to {LONGEST} printable characters, and an end before the year 9999"
        )
    store = DrainedHosts()
    if watch is not None:
        waited_s = _wait_for_notice(watch, endpoint, hosts)
        now += waited_s
        named = [replace(one, since=now, until=one.until and one.until + waited_s) for one in named]
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


def _wait_for_notice(source: str, endpoint: str, hosts: tuple[str, ...]) -> float:
    """Wait until the end of this host is announced, inform runs over ssh, and return the seconds waited."""
    from apples.hosts.notices import await_notice, notify_agents
    from nws.base.notes import step
    from nws.base.wording import counted
    from nws.client.endpoint import checked_url

    began = time.time()
    notice = await_notice(source, checked_url(endpoint), step)
    step(f"{notice}: draining {', '.join(hosts)}; {counted(notify_agents(), 'run')} over ssh informed")
    return time.time() - began
