"""What tests get of a testbed: a lab of hosts, one for each process of tests, or the reason why there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .description import parse
from .grid import Testbed
from .host import faketime_library
from .running import missing

ROOT = Path(__file__).parents[2]


def old_python() -> str | None:
    """The oldest interpreter of this machine that host agents support, older than 3.11; None without one."""
    names = [f"python3.{minor}" for minor in (8, 9, 10)]
    found = [
        path for n in names for path in (*Path.home().glob(f".pyenv/versions/*/bin/{n}"), shutil.which(n))
    ]
    return next((str(path) for path in found if path is not None and _runs(path)), None)


def without_package() -> dict[str, object]:
    """Keys of a host that has no installation of this package, and an old Python if this machine has one."""
    inside = Path(sys.prefix).is_relative_to(ROOT)
    python = old_python()
    return {
        "private": [str(ROOT), *([] if inside else [sys.prefix])],
        **({} if python is None else {"python": python}),
    }


def _runs(python: str | Path) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


#: Three hosts that are well, and some that are not; `own_tmp` shares no /tmp with the others.
HOSTS = [
    {"name": "a1"},
    {"name": "a2"},
    {"name": "a3"},
    {"name": "locked", "login": False},
    {"name": "stranger", "known": False},
    {"name": "debian", "own_name": "127.0.1.1"},
    {"name": "own-files", "private": ["/var/tmp"]},
    # It has an old Python, if this machine has one, and no installation of this package.
    {"name": "bare", **without_package()},
]


@pytest.fixture(scope="session")
def lab() -> Iterator[Testbed]:
    """Hosts that are up; what a test changes it puts back."""
    why = missing()
    if why:
        pytest.skip(why)
    hosts = list(HOSTS)
    if faketime_library() is not None:
        hosts.append({"name": "late", "clock": "-1h"})
    name = f"lab-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
        yield testbed
