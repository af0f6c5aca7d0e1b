"""Finds applications: the built-in ones, application files, Python files with an `Application`, and other packages'.

A name without a directory is looked for among the built-in ones, in the directories of `$APPLES_APPS`, in the user's
configuration directory, and in the entry point group `apples.applications`. Anything else is a path.

An application may also be known by its model only, without a program. A published code such as PMHD3D can be planned
for (`--dry-run`) and run on the mock grid from its figures alone, which a grid file has. On real hosts there is no
program to start, and the error reports that.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from apples.applications.described import read_program
from apples.errors import ConfigError
from apples.model.template import Application, CheckpointFile, Workload

#: Variable with further directories of application files, separated as in PATH.
DIRECTORIES = "APPLES_APPS"

GROUP = "apples.applications"

_ENDINGS = (".yaml", ".yml", ".py")


def is_path(name: str) -> bool:
    """Return whether a value of --app means a file: it has a directory, or the ending of an application file."""
    return os.sep in name or name.endswith(_ENDINGS)


def find_user_application(name: str) -> Application | None:
    """Return the application of a path or name; None if there is none of that name.

    Raises `ConfigError` for a file that does not exist or is not legal.
    """
    if is_path(name):
        return _from_file(Path(name))
    for directory in directories():
        for ending in _ENDINGS:
            path = directory / f"{name}{ending}"
            if path.is_file():
                return _from_file(path)
    return _from_entry_point(name)


def known_names() -> list[str]:
    """Return the names of all application files in the directories that are searched, and of entry points, sorted."""
    files = {
        path.stem
        for directory in directories()
        if directory.is_dir()
        for path in directory.iterdir()
        if path.suffix in _ENDINGS
    }
    return sorted(files | {point.name for point in entry_points(group=GROUP)})


def directories() -> Iterator[Path]:
    """Yield the directories that are searched for application files, the first one first."""
    for directory in os.environ.get(DIRECTORIES, "").split(os.pathsep):
        if directory:
            yield Path(directory).expanduser()
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        yield (base if base.is_absolute() else Path.home() / ".config") / "apples" / "apps"
    except RuntimeError:
        # A user without a home directory has no configuration.
        return


def _from_file(path: Path) -> Application:
    return _from_python(path) if path.suffix == ".py" else read_program(path)


def _from_python(path: Path) -> Application:
    """Return the `APPLICATION` of a Python file, which is run for that."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; check the path")
    spec = spec_from_file_location(f"apples_user_application_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: cannot be loaded as a Python module")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # The file is the user's, and running it may raise anything.
        raise ConfigError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    return _checked(getattr(module, "APPLICATION", None), f"{path}: APPLICATION")


def _from_entry_point(name: str) -> Application | None:
    """Return the value of an entry point: an `Application`, or the path of an application file."""
    points = entry_points(group=GROUP).select(name=name)
    if not points:
        return None
    point = next(iter(points))
    try:
        found = point.load()
    except Exception as error:
        # The module is of another package, and importing it may raise anything.
        raise ConfigError(
            f"--app {name}: {point.value} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if isinstance(found, str | Path):
        return read_program(found)
    return _checked(found, f"--app {name}: {point.value}")


def _checked(found: object, what: str) -> Application:
    if not isinstance(found, Application):
        lacks = "is missing" if found is None else f"is no Application but {type(found).__name__}"
        raise ConfigError(f"{what} {lacks}; see apples.model.template.Application")
    return found


def known_by_model(name: str, workload_of: Callable[[int], Workload], source: str) -> Application:
    """Return an application without a program; it has no options.

    Args:
        name: its name.
        workload_of: size → demands of a run of that size.
        source: their origin, for messages.
    """
    summary = f"known by its model only ({source})"

    def check(options: Mapping[str, str]) -> None:
        if options:
            raise ConfigError(f"{name} is {summary} and takes no options; got {', '.join(options)}")

    def iterations_in(file: Path, size: int, options: Mapping[str, str], verified: bool) -> int:
        raise ConfigError(f"--checkpoint {file}: {name} is {summary} and has no checkpoints to read")

    return Application(
        name=name,
        summary=summary,
        check=check,
        workload=lambda size, options: workload_of(size),
        price_key=lambda options: "benchmark",
        # Simulated runs write one of two fields in memory.
        checkpoint=CheckpointFile(
            size_bytes=lambda size, options: size * workload_of(size).bytes_per_row / 2.0,
            iterations_in=iterations_in,
        ),
        moves_rows=True,
    )
