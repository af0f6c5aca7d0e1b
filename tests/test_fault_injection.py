"""A short run of failing calls in daemons; `benchmarks/faults.py` has all calls and daemons."""

import errno
import shutil

import pytest

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
def test_daemon_with_failing_calls_recovers(benchmark_module, tmp_path, name, fault):
    faults, plan = benchmark_module("faults"), benchmark_module("fault_plan").Plan(tmp_path)
    assert faults.inject(name, plan, 1.0, 1, (fault,)) == 0
    assert plan.failed > 0
