"""The state of every host, from the directory, the schedule and the catalogue of series."""

from dataclasses import fields

import numpy as np

from nws.service.directory import Directory, HostRegistration
from nws.service.forecaster import Forecaster
from nws.service.parsing import Ints
from nws.service.records import HostState, Registration
from nws.service.scheduling import ScheduleVersions

_DESCRIBED = tuple(field.name for field in fields(Registration))


def host_states(
    directory: Directory, schedules: ScheduleVersions, forecaster: Forecaster, known: Ints
) -> list[HostState]:
    """Return the states by name; `known` contains the numbers of the series to count."""
    with forecaster.lock:
        catalogue = forecaster.catalogue
        owner, t = catalogue.owner[known], forecaster.last_t[known]
        count = np.bincount(owner, minlength=len(catalogue.hosts))
        latest = np.full(len(catalogue.hosts), -np.inf)
        np.maximum.at(latest, owner, t)
        series = dict(zip(catalogue.hosts, count.tolist(), strict=True))
        external = {
            name: last
            for name, last in zip(catalogue.hosts, latest.tolist(), strict=True)
            if series[name] and name not in directory.entries
        }
    states = [
        _registered(name, entry, directory, schedules, series.get(name, 0))
        for name, entry in directory.entries.items()
    ]
    states += [_external(name, last, series[name], schedules) for name, last in external.items()]
    return sorted(states, key=lambda state: state.name)


def _registered(
    name: str, entry: HostRegistration, directory: Directory, schedules: ScheduleVersions, series: int
) -> HostState:
    registration = entry.registration
    # not asdict, whose deep copy would dominate the snapshot of a thousand hosts
    described = {field: getattr(registration, field) for field in _DESCRIBED}
    return HostState(
        name=name,
        **described | {"site": schedules.site(name, registration.site)},
        registered_at=entry.registered_at,
        last_seen=directory.last_seen(entry),
        lost=entry.lost,
        cliques=schedules.cliques_of.get(name, ()),
        series=series,
        status=entry.status,
    )


def _external(name: str, last: float, series: int, schedules: ScheduleVersions) -> HostState:
    return HostState(
        name=name,
        site=schedules.site(name, None),
        last_seen=last,
        cliques=schedules.cliques_of.get(name, ()),
        series=series,
    )
