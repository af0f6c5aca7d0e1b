"""Unit files for systemd, one for each daemon, from one template.

A system unit confines its daemon as far as its work allows; the template gives the reason for each exception. A unit of
a user's own systemd has only the restrictions that need no root. Readiness is `Type=notify`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from nws.base.errors import UsageError
from nws.base.files import write_whole

SCOPES = ("system", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon that a unit runs.

    program, words : its command below the installation's `bin`.  files : settings, tokens and keys that it reads
    root : capabilities that it keeps as root, empty for a user of its own.  jobs : starts jobs of users
    realtime : runs ahead of other processes.  memory : its limit, None for none.  tasks : limit of threads
    runtime : directory below /run.  usual_state : its clients look for it in the user's state directory
    """

    name: str
    title: str
    program: str
    words: tuple[str, ...]
    files: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    jobs: bool = False
    realtime: bool = False
    memory: str | None = None
    tasks: int = 256
    runtime: str | None = None
    usual_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlace:
    """Where a unit is to run.

    scope : system or user.  bin : directory of the installed programs.  state : for the daemon's files, None for the
    usual place.  files : settings, tokens and keys by name, which a daemon with a user of its own gets as credentials
    """

    scope: str
    bin: str
    state: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def unit(daemon: Daemon, place: UnitPlace, words: Sequence[str] | None = None) -> str:
    """Return the text of a unit file. In `words` ``{name}`` is the path of one of the place's files."""
    system = place.scope == "system"
    moved = system and not daemon.root and not daemon.jobs
    files = {name: path for name, path in place.files.items() if words is not None or name in daemon.files}
    paths = {name: f"%d/{name}" if moved else _literal(path) for name, path in files.items()}
    chosen = [_literal(word) for word in (daemon.words if words is None else words)]
    command = [_literal(f"{place.bin}/{daemon.program}"), *filled(chosen, paths)]
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template("daemon.service.j2").render(
        name=daemon.name,
        daemon=daemon,
        system=system,
        command=" ".join(_quoted(word) for word in command),
        state=None if place.state is None else _quoted(_literal(f"APPLES_STATE={place.state}"), always=True),
        credentials={name: _literal(path) for name, path in files.items()} if moved else {},
        home=any(place.bin.startswith(f"{top}/") for top in ("/home", "/root", "/run/user")),
    )


def filled(words: Sequence[str], paths: Mapping[str, str]) -> list[str]:
    """Return words in which ``{name}`` is replaced by the path of that file."""
    found = list(words)
    for name, path in paths.items():
        found = [word.replace("{" + name + "}", path) for word in found]
    return found


def write_units(daemons: Sequence[Daemon], place: UnitPlace, directory: Path) -> list[Path]:
    """Write unit files and return their paths; raises `UsageError` if the directory cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        written = []
        for daemon in daemons:
            written.append(directory / f"{daemon.name}.service")
            write_whole(written[-1], unit(daemon, place), mode=0o644)
    except OSError as error:
        raise UsageError(f"{directory}: units cannot be written: {error.strerror or error}") from error
    return written


def _literal(text: str) -> str:
    """Return text without specifiers of systemd."""
    return text.replace("%", "%%")


def _quoted(word: str, *, always: bool = False) -> str:
    """Return a word of ExecStart; with `always` one of Environment, where a dollar sign has no meaning."""
    if word and not always and not set(word) & set(" \t\n\"'\\;$"):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped if always else escaped.replace("$", "$$")}"'
