"""Limits that people state on the choice of hosts: at most so many of some, licences, groups, a budget, a deadline.

The one place for these limits: the schema of `limits:` in grid files and application files, and the parser of the same
on the command line. A *selector* is a site, a host, or a bracket expression of hosts. `apples.planning.hostlimits`
applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from apples.errors import ConfigError
from apples.model.grid import Host
from nws.base.durations import parse_period
from nws.base.hostlist import expand
from nws.base.quantities import Count, ReadFrom


def _amount(value: object) -> float:
    """Return an amount of money or energy, 0 or more."""
    try:
        amount = float(str(value))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise ConfigError(f"{value!r} is no amount; legal are numbers from 0, such as 0.25")
    return amount


def _period(value: object) -> float:
    """Return a duration in seconds."""
    return parse_period(str(value), what="deadline")


Amount = Annotated[float, ReadFrom(_amount, Any)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    """At most `hosts` hosts, or `ranks` ranks (licences), of those that `of` selects."""

    of: str
    hosts: Count | None = None
    ranks: Count | None = None

    def __str__(self) -> str:
        parts = ((self.hosts, "host"), (self.ranks, "rank"))
        return " and ".join(
            f"at most {n} {what}{'s' * (n != 1)} of {self.of}" for n, what in parts if n is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the hosts of one run.

    at_most : hosts or ranks of some hosts.  together : selectors whose hosts are all used, or none of them
    apart : selectors of whose hosts at most one is used
    prices : selector → money or energy for an hour of a host; the last that fits a host counts, others cost nothing
    budget : most that the run may cost, in the unit of the prices.  deadline : most seconds that it may take
    """

    at_most: tuple[AtMost, ...] = ()
    together: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    prices: dict[str, Amount] = field(default_factory=dict)
    budget: Amount | None = None
    deadline: Annotated[float, ReadFrom(_period, Any)] | None = None

    def __or__(self, more: Limits) -> Limits:
        """Return both limits together; the smaller budget and deadline counts, and the later price."""

        def smaller(a: float | None, b: float | None) -> float | None:
            return min((x for x in (a, b) if x is not None), default=None)

        return Limits(
            at_most=(*self.at_most, *more.at_most),
            together=(*self.together, *more.together),
            apart=(*self.apart, *more.apart),
            prices={**self.prices, **more.prices},
            budget=smaller(self.budget, more.budget),
            deadline=smaller(self.deadline, more.deadline),
        )

    def __bool__(self) -> bool:
        return bool(self.at_most or self.together or self.apart) or self.bounds_time

    @property
    def bounds_time(self) -> bool:
        """Return whether the limits depend on the length of the run."""
        return self.budget is not None or self.deadline is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each limit; `without` takes one of them."""
        stated = [
            *map(str, self.at_most),
            *(f"{s} together" for s in self.together),
            *(f"{s} apart" for s in self.apart),
        ]
        stated += [] if self.budget is None else [f"a budget of {self.budget:g}"]
        stated += [] if self.deadline is None else [f"a deadline of {self.deadline:g} s"]
        return tuple(stated)

    def without(self, name: str) -> Limits:
        """Return the limits without those of one name."""
        return replace(
            self,
            at_most=tuple(x for x in self.at_most if str(x) != name),
            together=tuple(s for s in self.together if f"{s} together" != name),
            apart=tuple(s for s in self.apart if f"{s} apart" != name),
            budget=None if name.startswith("a budget") else self.budget,
            deadline=None if name.startswith("a deadline") else self.deadline,
        )

    def unknown(self, hosts: Iterable[Host]) -> list[str]:
        """Return a problem for each selector that fits no host."""
        pool = tuple(hosts)
        chosen = [x.of for x in self.at_most] + [*self.together, *self.apart, *self.prices]
        known = ", ".join(sorted({h.site for h in pool if h.site} | {h.name for h in pool[:8]}))
        return [
            f"limits: {selector!r} fits no host and no site of the pool; legal are {known}"
            for selector in dict.fromkeys(chosen)
            if not any(selected(selector, pool))
        ]


def selected(selector: str, hosts: Sequence[Host]) -> list[bool]:
    """Return for each host whether the selector fits it: its site, its name, or a bracket expression with it."""
    if any(host.site == selector for host in hosts):
        return [host.site == selector for host in hosts]
    try:
        names = set(expand(selector))
    except ConfigError:
        names = {selector}
    return [host.name in names for host in hosts]


def parse_limits(given: Mapping[str, Sequence[str]]) -> Limits:
    """Return the limits of a command line; raise `ConfigError` with every problem.

    given : option → its values: ``at-most`` and ``licences`` (SELECTOR=N), ``together``, ``apart`` (SELECTOR),
        ``price`` (SELECTOR=AMOUNT), ``budget`` (AMOUNT), ``deadline`` (TIME)
    """
    problems: list[str] = []

    def each(option: str, parse: Callable[[str], Any]) -> list[Any]:
        stated = []
        for text in given.get(option, ()):
            try:
                stated.append(parse(text))
            except ConfigError as error:
                problems.extend(f"--{option} {text}: {problem}" for problem in error.problems)
        return stated

    hosts = each("at-most", lambda text: _pair(text, _count, "4"))
    ranks = each("licences", lambda text: _pair(text, _count, "4"))
    limits = Limits(
        at_most=(*(AtMost(of=s, hosts=n) for s, n in hosts), *(AtMost(of=s, ranks=n) for s, n in ranks)),
        together=tuple(given.get("together", ())),
        apart=tuple(given.get("apart", ())),
        prices=dict(each("price", lambda text: _pair(text, _amount, "0.25"))),
        budget=min(each("budget", _amount), default=None),
        deadline=min(each("deadline", _period), default=None),
    )
    if problems:
        raise ConfigError(problems)
    return limits


def _pair(text: str, parse: Callable[[str], Any], example: str) -> tuple[str, Any]:
    selector, equals, value = text.rpartition("=")
    if not (selector and equals):
        raise ConfigError(f"no SELECTOR=VALUE; an example is node[01-08]={example}")
    return selector, parse(value)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{text!r} is no number of hosts or ranks; legal are whole numbers from 1")
    return int(text)
