"""Kinds of cores: as sysfs of real processors lists them, and lists of CPUs."""

import pytest
from hypothesis import given, strategies as st

from apples.hosts.cores import core_kinds
from nws.base.cpulist import list_of, parse_list

#: Files of sysfs on processors with several kinds of cores, and without: an Intel Core i7-1260P (4 cores of two threads
#: each, 8 small ones), an RK3399 (4 Cortex-A53, 2 Cortex-A72), a Snapdragon 8 Gen 1 (4, 3 and 1), a Ryzen 9 5950X (16
#: cores of two threads in two groups with an L3 cache each, which are of one kind).
INTEL = {"cpu_core/cpus": "0-7", "cpu_atom/cpus": "8-15"}
RK3399 = [485] * 4 + [1024] * 2
SNAPDRAGON = [324] * 4 + [850] * 3 + [1024]
RYZEN = {f"system/cpu/cpu{cpu}/cache/index3/shared_cpu_list": "0-7,16-23" for cpu in range(8)}


def capacities(values):
    return {f"system/cpu/cpu{cpu}/cpu_capacity": str(value) for cpu, value in enumerate(values)}


@pytest.mark.parametrize(
    ("files", "usable", "kinds"),
    [
        (INTEL, range(16), {"fast": "0-7", "slow": "8-15"}),
        (INTEL, [2, 3, 9], {"fast": "2-3", "slow": "9"}),
        (INTEL, range(6), {"": "0-5"}),
        (capacities(RK3399), range(6), {"fast": "4-5", "slow": "0-3"}),
        (capacities(SNAPDRAGON), range(8), {"fast": "7", "middle": "4-6", "slow": "0-3"}),
        (capacities([1009, 1024, 1024, 1000]), range(4), {"": "0-3"}),
        (RYZEN, range(32), {"": "0-31"}),
        ({"cpu_core/cpus": "0-7"}, range(8), {"": "0-7"}),
        ({**INTEL, "cpu_atom/cpus": "8-"}, range(16), {"": "0-15"}),
        (capacities([1024, "much"]), range(2), {"": "0-1"}),
    ],
)
def test_kinds_of_cores_are_as_sysfs_lists_them(tmp_path, files, usable, kinds):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert {kind: list_of(cpus) for kind, cpus in core_kinds(usable, tmp_path).items()} == kinds
    assert [*core_kinds(usable, tmp_path)] == [*kinds]


@given(st.sets(st.integers(0, 8191), min_size=1, max_size=64))
def test_list_of_cpus_is_read_back(cpus):
    assert parse_list(list_of(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-1", "1-2-3", "2-1", "0-8192", "1,,2", "\u0661", "1" * 9999]
)
def test_text_that_lists_no_cpus_is_refused(text):
    with pytest.raises(ValueError, match="legal are numbers"):
        parse_list(text)
