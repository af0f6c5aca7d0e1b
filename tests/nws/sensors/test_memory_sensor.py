"""Free memory: what the kernel estimates, and no more than any memory cgroup still allows."""

import pytest

from nws.base.errors import ProbeError
from nws.sensors.freememory import MemorySensor

GB = 1 << 30


@pytest.fixture
def sensor(host):
    (host.proc / "meminfo").write_text(
        f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {8 << 20} kB\n"
    )
    return MemorySensor(host="here", clock=host.now, proc=host.procfs(), cgroups=host.cgroups())


def free(sensor):
    (found,) = sensor.measure()
    assert str(found.series) == "memory.free@here"
    return found.value


def test_available_memory_counts_cache_that_can_be_dropped(sensor):
    assert free(sensor) == 8 * GB


def test_limit_of_version_1_binds_and_idle_file_cache_is_free(sensor, host):
    group = host.control_group("/job", version=1)
    (group / "memory.limit_in_bytes").write_text(f"{4 * GB}\n")
    (group / "memory.usage_in_bytes").write_text(f"{3 * GB}\n")
    (group / "memory.stat").write_text(f"inactive_file 5\ntotal_inactive_file {1 * GB}\n")
    assert free(sensor) == 2 * GB


def test_limit_of_version_2_anywhere_above_binds(sensor, host):
    group = host.control_group("/slice/job", version=2)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("5\n")
    (group.parent / "memory.max").write_text(f"{6 * GB}\n")
    (group.parent / "memory.high").write_text(f"{5 * GB}\n")
    (group.parent / "memory.current").write_text(f"{4 * GB}\n")
    (group.parent / "memory.stat").write_text(f"inactive_file {GB // 2}\n")
    assert free(sensor) == 1.5 * GB


def test_no_limit_of_version_1_is_a_huge_number(sensor, host):
    group = host.control_group("/job", version=1)
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "memory.usage_in_bytes").write_text("1\n")
    assert free(sensor) == 8 * GB


def test_group_over_its_limit_has_nothing_left(sensor, host):
    group = host.control_group("/job", version=2)
    (group / "memory.max").write_text(f"{GB}\n")
    (group / "memory.current").write_text(f"{2 * GB}\n")
    assert free(sensor) == 0


def test_kernel_too_old_to_say(sensor, host):
    (host.proc / "meminfo").write_text("MemTotal: 5 kB\n")
    with pytest.raises(ProbeError, match=r"meminfo: no line MemAvailable; .*Linux 3\.14"):
        sensor.measure()
