"""The settings file of a weather service: YAML, all mistakes reported at once with file and line.

`load_config` reads it; paths in it are relative to the file. The keys are described in docs/weather-service.md.
"""

from collections.abc import Iterator
from pathlib import Path

from nws.base.reader import Document, read_yaml, under, validate
from nws.base.yamltree import Location, Problem
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.service.serviceconfig import ServiceConfig


def load_config(path: Path | str) -> ServiceConfig:
    """Return the settings in a file; raises `ConfigError` with all problems, one line each."""
    document = read_yaml(path)
    config = validate(document, ServiceConfig)
    document.check(_problems(document, config))
    settled: ServiceConfig = under(Path(path).absolute().parent, config)
    return settled


def _problems(document: Document, config: ServiceConfig) -> Iterator[Problem]:
    """Yield the problems that involve more than one key or more than its type."""
    if not config.grid.strip() or len(config.grid) > 80:
        yield document.problem(("grid",), f"should be a name of 1 to 80 characters; got {config.grid!r}")
    if not config.keep.samples_s <= config.keep.minutes_s <= config.keep.ten_minutes_s:
        yield document.problem(
            ("keep",), "the periods of samples, minutes and ten_minutes should increase in this order"
        )
    for name in ("cpu", "memory", "deliver"):
        period_s = getattr(config.every, f"{name}_s")
        if not 0.1 <= period_s <= 86400:
            yield document.problem(("every", name), f"should be 0.1 s to 1 d; got {period_s:g} s")
    if config.lost_after_s < 2 * config.every.deliver_s:
        yield document.problem(
            ("lost_after",),
            f"should be at least twice every.deliver ({config.every.deliver_s:g} s), or hosts are lost between "
            f"deliveries; got {config.lost_after_s:g} s",
        )
    if not 4 * config.guard_s <= config.frame_s <= 3600:
        yield document.problem(
            ("frame",),
            f"should be at least four times guard ({config.guard_s:g} s) and at most an hour; got {config.frame_s:g} s",
        )
    if not 2 <= config.clique_most <= 64:
        yield document.problem(("clique_most",), f"should be 2 to 64; got {config.clique_most}")
    yield from _host_problems(document, config)


def _host_problems(document: Document, config: ServiceConfig) -> Iterator[Problem]:
    site_of: dict[str, str] = {}
    for site, hosts in document.value.get("sites", {}).items():
        for i, host in enumerate(hosts):
            at: Location = ("sites", site, i)
            yield from _name_problems(document, at, host)
            if host in site_of:
                yield document.problem(at, f"host {host} is at site {site_of[host]} already; keep one")
            site_of[host] = site
    for name, clique in (config.cliques or {}).items():
        at = ("cliques", name, "members")
        if not is_host_name(name):
            yield document.problem(("cliques", name), f"{name!r} is not a name; legal are {HOST_NAME_LEGAL}")
        if len(set(clique.members)) < 2:
            yield document.problem(at, "a clique has at least two hosts; leave a clique of one out")
        for i, host in enumerate(clique.members):
            yield from _name_problems(document, (*at, i), host)
            if host in clique.members[:i]:
                yield document.problem((*at, i), f"host {host} is in this clique already; keep one")


def _name_problems(document: Document, at: Location, name: str) -> Iterator[Problem]:
    if not is_host_name(name):
        yield document.problem(at, f"{name!r} is not a host name; legal are {HOST_NAME_LEGAL}")
