"""Finds configuration files: the user's own, and those shipped with the project.

Their contents are read by `nws.base.reader`, which reports file and line of every mistake.
"""

from pathlib import Path

from apples.errors import ConfigError
from nws.base.reader import did_you_mean


def find_config(name: str | Path) -> Path:
    """Return the path of a configuration: the user's file of that path, else the shipped one of that name.

    name : a path, or the name of a shipped file within ``configs``, with or without ``.yaml``: ``centurion``,
    ``mock/centurion``. Raises `ConfigError` naming the shipped ones.
    """
    given = Path(name)
    if given.exists():
        return given
    top = configs_dir()
    for shipped in (top / given, (top / given).with_suffix(".yaml")):
        if shipped.is_file():
            return shipped
    folder = given.parent if (top / given.parent).is_dir() else Path()
    known = [
        path.relative_to(top).with_suffix("").as_posix() for path in sorted((top / folder).glob("*.yaml"))
    ]
    raise ConfigError(
        f"{name}: no such file, and no configuration of that name is shipped{did_you_mean(str(name), known)}; "
        f"shipped are {', '.join(known) or 'none'}. Give the path of a YAML file or one of these names"
    )


def configs_dir() -> Path:
    """Return the directory of the shipped configurations: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"
