"""The application of a run, by its name or file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apples import applications
from apples.applications.catalogue import find_user_application, known_by_model, known_names
from apples.errors import ConfigError
from nws.base.reader import did_you_mean

if TYPE_CHECKING:
    from apples.model.gridfile import GridFile
    from apples.model.template import Application, Workload
    from apples.platforms.platform import Platform


def find_template(name: str | None, platform: Platform | None, file: GridFile | None) -> Application:
    """Return the application of that name: of the mock grid, the grid file, built in, or the user's own.

    A name of the grid file never starts a program: the file gives figures only. Raises `ConfigError`.
    """
    mock_workload = getattr(platform, "workload", None)
    stated = {} if file is None else {n: a for n, a in file.applications.items() if a.demands is not None}
    mock_name = None if mock_workload is None else mock_workload(1).application
    name = name or mock_name or applications.names()[0]
    if mock_workload is not None and name == mock_name:
        return known_by_model(name, mock_workload, "the mock grid's scenario")
    if name in stated and file is not None:

        def demands(size: int) -> Workload:
            workload = file.workload(name, size)
            assert workload is not None
            return workload

        return known_by_model(name, demands, str(file.grid.source))
    if name in applications.names():
        return applications.get(name)
    found = find_user_application(name)
    if found is None:
        own = [*applications.names(), *stated, *([mock_name] if mock_name else []), *known_names()]
        raise ConfigError(
            f"unknown application {name!r}{did_you_mean(name, own)}; legal are {', '.join(dict.fromkeys(own))}, or the "
            "path of an application file (apples app new)"
        )
    return found
