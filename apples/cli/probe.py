"""`apples probe`: check whether hosts can take part in a run, measure their speed, and explain slow ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from apples.cli.optiongroups import option, options_record, with_options
from nws.base.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apples.hosts.hostpreflight import Checked
    from apples.hosts.slowness import Verdict
    from apples.hosts.speed import LinkSpeed
    from apples.model.grid import Host

#: A host without this package, or with another version of it.
OWN_ONLY = "runs your own programs only"

#: Some hosts cannot take part; none can.
SOME_UNFIT, NONE_FIT = 1, 3


@options_record
class ProbeOptions:
    """Options of `apples probe`.

    hostfile : Hosts from a file, one a line, as mpirun reads it.
    grid_file : Hosts of a grid file, with their addresses.
    no_speed : Only the checks, no speed test.
    limit : Time limit of the check of a host (default 20s).
    as_json : One JSON document.
    """

    hostfile: str | None = option("--hostfile", "--hosts", metavar="FILE")
    grid_file: str | None = option("-g", "--grid", metavar="FILE")
    no_speed: bool = option("--no-speed", is_flag=True)
    limit: str | None = option("--limit", metavar="TIME")
    as_json: bool = option("--json", is_flag=True)


@click.command()
@click.argument("hosts", nargs=-1, metavar="[HOSTS]...")
@with_options(ProbeOptions)
def probe(hosts: tuple[str, ...], options: ProbeOptions) -> int:
    """Check HOSTS (alpha, node[01-08]) as apples-run --launcher ssh does, and test their speed.

    Each host is called over your own ssh, all at once. Those that pass run the application's kernel for a moment and
    measure the links among them. The cause of a slow host is named: throttled, busy, slow CPU, slow link.

    Exit codes: 0 all hosts can take part, 1 some cannot, 3 none can, 2 usage.
    """
    from apples.cli.console import Console
    from apples.hosts import hostcheck, hostpreflight, slowness, speed
    from apples.hosts.facts import not_installed
    from apples.platforms.platform import address_of
    from apples.platforms.requirements import needs_of_ranks
    from nws.base.durations import parse_duration

    pool = _pool(hosts, options.hostfile, options.grid_file)
    limit = options.limit
    limit_s = hostpreflight.LIMIT_S if limit is None else parse_duration(limit, what="--limit")
    console = Console(quiet=options.as_json)
    console.note(f"checking {counted(len(pool), 'host')}")
    candidates = [hostpreflight.Candidate(name=host.name, address=address_of(host)) for host in pool]
    with hostpreflight.conversations_with(
        candidates, needs_of_ranks(package=False), limit_s=limit_s
    ) as conversations:
        checked = [one for one, _ in conversations]
        fit = [(one, conversation) for one, conversation in conversations if one.fit]
        versions = hostcheck.versions()
        missing = {one.candidate.name: not_installed(one.facts, versions) for one, _ in fit if one.facts}
        kernels: dict[str, speed.Kernel] = {}
        links: list[LinkSpeed] = []
        if not options.no_speed and fit:
            installed = [one for one in fit if not missing[one[0].candidate.name]]
            console.note(f"kernel on {counted(len(installed), 'host')}")
            kernels = speed.kernels(installed)
            console.note("links between them")
            links = speed.links(fit, losses=True)
    surveys = {one.candidate.name: one.facts.survey for one, _ in fit if one.facts and one.facts.survey}
    verdicts = slowness.verdicts(surveys, kernels, links)
    if options.as_json:
        click.echo(json.dumps({**_document(checked, verdicts, kernels, links), "own_programs_only": missing}))
    else:
        lines = _lines(checked, verdicts, kernels)
        lines += [f"{host}: {OWN_ONLY}: it {'; '.join(why)}" for host, why in missing.items() if why]
        click.echo("\n".join(lines))
    unfit = [one for one in checked if not one.fit]
    if not unfit:
        return 0
    return NONE_FIT if len(unfit) == len(checked) else SOME_UNFIT


def _pool(hosts: Sequence[str], hostfile: str | None, grid_file: str | None) -> list[Host]:
    """Return the named hosts, each once; those of a grid file with their addresses."""
    from pathlib import Path

    from apples.errors import ConfigError
    from apples.model.config import find_config
    from apples.model.grid import Host
    from apples.model.gridfile import load_grid
    from nws.base.hostlist import parse_hosts, read_hostfile

    grid = None if grid_file is None else load_grid(find_config(grid_file))
    entries = [entry for text in hosts for entry in parse_hosts(text, where="HOSTS")]
    if hostfile is not None:
        entries += read_hostfile(Path(hostfile))
    names = [entry.name for entry in entries]
    if grid is None and not names:
        raise ConfigError(
            "no hosts; name them (apples probe alpha node[01-08]), or give --hostfile or --grid"
        )
    if grid is None:
        addresses = {entry.name: entry.address for entry in entries}
        return [Host(name=name, address=address) for name, address in addresses.items()]
    known = {host.name: host for host in grid.hosts}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no host {', '.join(unknown)} in {grid_file}; legal are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names or known)]


def _document(
    checked: Sequence[Checked],
    verdicts: Sequence[Verdict],
    kernels: dict[str, Any],
    links: Sequence[LinkSpeed],
) -> dict[str, Any]:
    from msgspec import to_builtins

    from apples.hosts.slowness import slowest

    by_host = {verdict.host: verdict for verdict in verdicts}
    hosts = []
    for one in checked:
        name, verdict = one.candidate.name, by_host.get(one.candidate.name)
        kernel = kernels.get(name)
        hosts.append(
            {
                "host": name,
                "address": one.candidate.address,
                "fit": one.fit,
                "problems": list(one.problems),
                "check_s": one.took_s,
                "facts": None if one.facts is None else to_builtins(one.facts),
                "kernel": None if kernel is None else to_builtins(kernel),
                "verdict": None if verdict is None else to_builtins(verdict),
            }
        )
    slow = slowest(verdicts)
    return {
        "version": 1,
        "hosts": hosts,
        "links": [to_builtins(link) for link in links],
        "slowest": None if slow is None else slow.host,
    }


def _lines(checked: Sequence[Checked], verdicts: Sequence[Verdict], kernels: dict[str, Any]) -> list[str]:
    from apples.cli.report import table
    from apples.hosts.slowness import slowest

    by_host = {verdict.host: verdict for verdict in verdicts}
    rows = []
    for one in checked:
        verdict, facts = by_host.get(one.candidate.name), one.facts
        if verdict is None or facts is None or facts.survey is None:
            continue
        kernel = kernels.get(one.candidate.name)
        cell_s = None if kernel is None else kernel.seconds_per_cell
        rows.append(
            [
                one.candidate.name,
                facts.survey.cpus,
                f"{facts.survey.availability:.2f}",
                f"{facts.survey.memory_bytes / 1e9:.2f} GB",
                "-" if cell_s is None else f"{cell_s * 1e9:.2f} ns",
                "-" if verdict.relative is None else f"{verdict.relative:.0%}",
                "-" if verdict.latency_s is None else f"{verdict.latency_s * 1e3:.2f} ms",
                "-" if verdict.bandwidth_Bps is None else f"{verdict.bandwidth_Bps * 8e-6:.3g} Mbit/s",
            ]
        )
    header = ["host", "CPUs", "share", "memory", "a cell", "speed", "latency", "bandwidth"]
    lines = table(header, rows) if rows else []
    lines += [f"{v.host}: {reason}" for v in verdicts for reason in v.reasons]
    lines += [f"{one.candidate.name}: cannot take part: it {one.reason}" for one in checked if not one.fit]
    slow = slowest(verdicts)
    if slow is not None and len(verdicts) > 1:
        lines.append(
            f"slowest: {slow.host} ({', '.join(dict.fromkeys(r.partition(':')[0] for r in slow.reasons))})"
        )
    return lines
