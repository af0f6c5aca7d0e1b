"""A short run of failing calls in daemons; `tests/nightly` has all calls and daemons."""

import errno
import shutil

import pytest

from tests.nightly.failingcalls import Plan
from tests.nightly.faults import inject

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no gcc to compile the library that is preloaded"
)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("node", ("malloc", errno.ENOMEM, False)),
        ("agent", ("malloc", errno.ENOMEM, False)),
        ("agent", ("write", errno.EIO, True)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_daemon_with_failing_calls_recovers(tmp_path, name, fault):
    plan = Plan(tmp_path)
    inject(name, plan, 1.0, 1, fault)
    assert plan.failed > 0
