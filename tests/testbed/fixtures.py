"""What tests get of a testbed: a lab of hosts, one for each process of tests, or the reason why there is none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from .description import parse
from .grid import Testbed
from .host import faketime_library
from .running import missing

#: Three hosts that are well, and some that are not; `own_tmp` shares no /tmp with the others.
HOSTS = [
    {"name": "a1"},
    {"name": "a2"},
    {"name": "a3"},
    {"name": "locked", "login": False},
    {"name": "stranger", "known": False},
    {"name": "debian", "own_name": "127.0.1.1"},
    {"name": "own-files", "private": ["/var/tmp"]},
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
