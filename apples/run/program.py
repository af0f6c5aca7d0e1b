"""The application of a run, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apples import applications
from apples.applications.known import KnownByModel
from apples.errors import ConfigError

if TYPE_CHECKING:
    from apples.model.gridfile import GridFile
    from apples.model.template import Template, Workload
    from apples.platforms.platform import Platform


def find_template(name: str | None, platform: Platform | None, file: GridFile | None) -> Template:
    """Return the application of that name: a built-in one, or one of the grid file or the mock grid."""
    mock_workload = getattr(platform, "workload", None)
    stated = {} if file is None else {n: a for n, a in file.applications.items() if a.demands is not None}
    mock_name = None if mock_workload is None else mock_workload(1).application
    name = name or mock_name or applications.DEFAULT
    if mock_workload is not None and name == mock_name:
        return KnownByModel(name, mock_workload, "the mock grid's scenario")
    if name in stated and file is not None:

        def demands(size: int) -> Workload:
            workload = file.workload(name, size)
            assert workload is not None
            return workload

        return KnownByModel(name, demands, str(file.grid.source))
    try:
        return applications.get(name)
    except ConfigError:
        legal = dict.fromkeys([*applications.names(), *stated, *([mock_name] if mock_name else [])])
        raise ConfigError(f"unknown application {name!r}; legal are {', '.join(legal)}") from None
