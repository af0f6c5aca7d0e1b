"""Programs that are sent over the connection to a host, which may have no installation of this package.

A host needs Python 3.8 or later: this environment's interpreter at the same path, else `python3` of its PATH. The
program arrives on standard input; the rest of the input is the program's own.
"""

import base64
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from nws.base import unpacking

#: Reads a program whose length is on the first line, and runs it. Nothing after the program is read. Nothing is
#: imported from the working directory, "" in Python's path: other users may write to it.
BOOTSTRAP = (
    "import io, sys; sys.path[:] = filter(None, sys.path); "
    "sys.version_info < (3, 8) and sys.exit('Python %d.%d is too old, 3.8 or later is needed' % "
    "sys.version_info[:2]); i = io.BufferedReader(io.FileIO(0, closefd=False), 1); n = i.readline().strip(); "
    "n.isdigit() or sys.exit('its login shell reads standard input, which must be left to the command'); "
    "exec(compile(i.read(int(n)), 'sent program', 'exec'))"
)

#: Name of the interpreter of hosts without this environment.
PYTHON = "python3"

#: Whether only this user and root can replace the path $1, with all that links lead to, where no Python may run yet:
#: as `nws.base.files.untrusted`. `ls -ldn` gives type and mode, links, owner, group, in the order of names, / first.
#: There is no `!`, which csh replaces in quotes, too.
_TRUSTED = (
    "alone() { n=$(id -un); "
    '[ "$({ getent group "$1" | cut -d: -f4 | tr , "\\n"; getent passwd | cut -d: -f1,4 | sed -n "s/:$1\\$//p"; } | '
    'sort -u | grep .)" = "$n" ] && getent passwd | grep -q "^$n:"; }; '
    'trusted() { q=$1; set --; while :; do d=$q; while [ "$d" ]; do set -- "$@" "$d"; d=${d%/*}; done; '
    '[ -L "$q" ] || break; l=$(readlink "$q"); case $l in /*) q=$l;; *) q=${q%/*}/$l;; esac; done; '
    'd=$(readlink -f "$q"); while [ "$d" ]; do set -- "$@" "$d"; d=${d%/*}; done; '
    'ls -ldn / "$@" | { u=$(id -u); r=; while read -r m n o g x; do r=${r:-$o}; '
    'case $o in "$u"|"$r"|0) ;; *) exit 1;; esac; '
    'case $m in -????w*) [ "$o" = "$g" ] || alone "$g" || exit 1;; esac; '
    "case $m in l*|????????-*|d????????[tT]*) ;; *) exit 1;; esac; done; exit 0; }; }; "
)

_EITHER = (
    f"{_TRUSTED}p=$1; shift; unset {unpacking.UNTRUSTED}; "
    'if [ -x "$p" ]; then trusted "$p" || '
    f'{{ export {unpacking.UNTRUSTED}="$p"; p={PYTHON}; }}; else p={PYTHON}; fi; exec "$p" "$@"'
)


#: An import, wherever it stands; and imports for type checkers, which the host does not need.
_IMPORT = re.compile(r"^ *(?:from ([\w.]+) )?import (\([^)]*\)|.+)", re.MULTILINE)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:(?: .*)?\n)+", re.MULTILINE)


def interpreter(*words: str) -> list[str]:
    """Return the command that runs Python with these words on any host."""
    return ["sh", "-c", _EITHER, "sh", sys.executable, *words]


def framed(program: bytes) -> bytes:
    """Return a program as `BOOTSTRAP` reads it."""
    return b"%d\n%b" % (len(program), program)


@cache
def sent_program(modules: Sequence[str], *arguments: str, kept: bool = True) -> bytes:
    """Return the program that calls `main` of the first module with `arguments`.

    Args:
        modules: Modules that the program imports; those that they import are sent, too. Their packages are empty on
            the host.
        arguments: Of `main`.
        kept: Whether the host keeps the modules for the next time.
    """
    sources = with_imports(("nws.base.files", *modules))
    packages = {name.rpartition(".")[0] for name in sources}
    packages |= {name.rpartition(".")[0] for name in packages} - {""}
    texts = {f"{_path(name)}/__init__.py": "" for name in sorted(packages)}
    texts |= {f"{_path(name)}.py": text for name, text in sources.items()}
    content = json.dumps(texts).encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    packed = base64.b64encode(zlib.compress(content, 9)).decode()
    call = f"run({packed!r}, {digest if kept else ''!r}, {modules[0]!r}, {[*arguments]!r})"
    return f"{_text(unpacking.__name__)}\n{call}\n".encode()


def with_imports(modules: Sequence[str]) -> dict[str, str]:
    """Return the sources of modules, and of those of our packages that they import, by name."""
    sources: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in sources or (text := _text(name)) is None:
            continue
        sources[name] = text
        for package, words in _IMPORT.findall(_FOR_TYPES.sub("", text)):
            names = re.findall(r"[\w.]+", words)
            # `from package.module import name`, or `from package import module`
            waiting += [package, *(f"{package}.{name}" for name in names)] if package else names
    return sources


def _path(module: str) -> str:
    return module.replace(".", "/")


def _text(module: str) -> str | None:
    """Return the source of a module with an empty line for each of its docstring, which the host does not need.

    None if it is no module of ours.
    """
    package, _, path = _path(module).partition("/")
    if package in sys.stdlib_module_names or package not in sys.modules:
        return None
    file = files(package) / f"{path}.py"
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8")
    return re.sub(r'\A""".*?"""', lambda docstring: "\n" * docstring[0].count("\n"), text, flags=re.DOTALL)
