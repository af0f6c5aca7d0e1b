"""The known series by number: name, host, peer and resource, in both directions.

Numbers are those of the memory: they count from 0 without gaps and never change. The forecasters' batteries and all
columns here use them as index. Columns are arrays, so that no request iterates over all series in Python. Not
thread-safe. It does not decide which host may write a series.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nws.base.errors import Refused, UnknownSeries
from nws.messages.fieldtypes import Floats, Ints
from nws.series import HOST_NAME_LEGAL, Resource, Series, is_host_name


class Catalogue:
    """Series in the order of their numbers.

    hosts: every host named by a series, in order of appearance
    owner, peer: int64[series], indices into `hosts` of the measuring host and of the other end of a pair, -1 for
    none
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.series: list[Series] = []
        self.hosts: list[str] = []
        self._number: dict[str, int] = {}
        self._host: dict[str, int] = {}
        self._rank: dict[str, int] = {r.value: i for i, r in enumerate(Resource)}
        #: int64[3, series]: indices in `hosts` of both ends, -1 without a peer, and the rank of the resource.
        self._columns = np.empty((3, 0), np.int64)
        self._order: Ints | None = None

    def __len__(self) -> int:
        """Return the number of series."""
        return len(self.names)

    @property
    def owner(self) -> Ints:
        """Return the index in `hosts` of the host that measures each series."""
        owner: Ints = self._columns[0]
        return owner

    @property
    def peer(self) -> Ints:
        """Return the index in `hosts` of the other end of each series, -1 for series of one host."""
        peer: Ints = self._columns[1]
        return peer

    @property
    def bounds(self) -> Floats:
        """Return the smallest and the largest possible value of each series: float64[2, series]."""
        by_resource = np.tile([[-math.inf], [math.inf]], len(self._rank))
        for resource in Resource:
            by_resource[:, self._rank[resource.value]] = resource.least, resource.most
        return by_resource[:, self._columns[2]]

    def extend(self, names: Iterable[str]) -> None:
        """Append series in the order of their numbers; names come from the memory and are valid."""
        rows = []
        for name in names:
            series = Series.parse(name)
            self._number[name] = len(self.names)
            self.names.append(name)
            self.series.append(series)
            ends = [-1 if one is None else self._host_place(one) for one in (series.host, series.peer)]
            rows.append([*ends, self._rank.setdefault(str(series.resource), len(self._rank))])
        if rows:
            self._columns = np.concatenate((self._columns, np.array(rows, np.int64).T), axis=1)
            self._order = None

    def kinds(self, cpu_model: Callable[[str], str]) -> Ints:
        """Return the kinds of series whose errors are alike: int64[2, series], see `BatteryBank.lend`.

        Row 0: resource and CPU model of the host, -1 for pairs and where `cpu_model` returns no name. Row 1: resource.
        """
        models: dict[str, int] = {"": -1}
        model = np.array([models.setdefault(cpu_model(host), len(models)) for host in self.hosts], np.int64)
        resource = self._columns[2]
        alone = np.where(self.peer < 0, model[self.owner], -1)
        return np.stack((np.where(alone < 0, -1, alone * len(self._rank) + resource), resource))

    def number(self, name: str) -> int:
        """Return the number of a series; raises `UnknownSeries`."""
        known = self._number.get(name)
        if known is None:
            raise UnknownSeries(f"no series {name!r}: it has no measurements; query the list of series")
        return known

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the number of each series, -1 for one that is unknown."""
        number = self._number.get
        return [number(name, -1) for name in names]

    def by_name(self) -> Ints:
        """Return the numbers of all series, sorted by name."""
        if self._order is None:
            self._order = np.array(sorted(range(len(self)), key=self.names.__getitem__), np.int64)
        return self._order

    def place(self, host: str) -> int | None:
        """Return the index of a host in `hosts`, None if no series names it."""
        return self._host.get(host)

    def owned(self, host: str) -> int:
        """Return the number of series that a host measures."""
        number = self._host.get(host)
        return 0 if number is None else int(np.count_nonzero(self.owner == number))

    def between(self, hosts: Sequence[str]) -> NDArray[np.bool_]:
        """Return bool[series]: series of these hosts, and of pairs with both ends among them."""
        inside = np.zeros(len(self.hosts) + 1, np.bool_)
        inside[[self._host[h] for h in hosts if h in self._host]] = True
        # index -1, "no peer", selects the last element and is always inside
        inside[-1] = True
        return inside[self.owner] & inside[self.peer]

    def touching(self, hosts: Iterable[str]) -> NDArray[np.bool_]:
        """Return bool[series]: series that name one of these hosts at either end."""
        named = np.zeros(len(self.hosts) + 1, np.bool_)
        named[[self._host[h] for h in hosts if h in self._host]] = True
        return named[self.owner] | named[self.peer]

    def of_resource(self, resource: str) -> NDArray[np.bool_]:
        """Return bool[series]: series of one resource, built-in or external."""
        chosen: NDArray[np.bool_] = self._columns[2] == self._rank.get(resource, -1)
        return chosen

    def _host_place(self, host: str) -> int:
        number = self._host.setdefault(host, len(self.hosts))
        if number == len(self.hosts):
            self.hosts.append(host)
        return number


def checked_series(name: str) -> Series:
    """Return the series of a client's name; raises `UsageError` or `Refused` if the service does not take it."""
    series = Series.parse(name)
    for host in (series.host, series.peer):
        if host is not None and not is_host_name(host):
            raise Refused(f"{name!r}: {host!r} is not a host name here; legal are {HOST_NAME_LEGAL}")
    return series
