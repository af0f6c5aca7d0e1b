"""Hosts of allocations, from the files that batch systems write."""

from __future__ import annotations

import pytest

from apples.errors import ConfigError
from apples.model.allocations import allocated_hosts

PE_HOSTFILE = "n1.cluster 2 all.q@n1.cluster UNDEFINED\nn2 4 all.q@n2 <NULL>\nn1.cluster 1 fast.q@n1 0,1\n"


@pytest.mark.parametrize(
    ("variable", "text", "system", "hosts"),
    [
        ("PBS_NODEFILE", "n1\nn1\nn2\n", "PBS", {"n1": 2, "n2": 1}),
        ("LSB_DJOB_HOSTFILE", "a\nb\na\n", "LSF", {"a": 2, "b": 1}),
        ("PE_HOSTFILE", PE_HOSTFILE, "Grid Engine", {"n1.cluster": 3, "n2": 4}),
        ("OAR_NODEFILE", "g-1.site.fr\ng-1.site.fr\n", "OAR", {"g-1.site.fr": 2}),
        (
            "OMPI_MCA_orte_default_hostfile",
            "w-0.job.ns.svc slots=2\n",
            "the MPI Operator",
            {"w-0.job.ns.svc": 2},
        ),
        ("I_MPI_HYDRA_HOST_FILE", "w-0:3\nw-1:1\n", "the MPI Operator", {"w-0": 3, "w-1": 1}),
    ],
)
def test_hosts_of_an_allocation_have_its_slots(tmp_path, variable, text, system, hosts) -> None:
    (tmp_path / "hosts").write_text(text)
    found = allocated_hosts({variable: str(tmp_path / "hosts")})
    assert found is not None
    assert found[0] == system
    assert {host.name: host.slots for host in found[1]} == hosts


def test_hosts_outside_an_allocation_are_none() -> None:
    assert allocated_hosts({"PBS_NODEFILE": "", "HOME": "/root"}) is None


def test_problems_of_an_allocation_name_file_and_line(tmp_path) -> None:
    (tmp_path / "hosts").write_text("n1 two all.q@n1\nn2 2 all.q@n2\n-x 1 q\n")
    with pytest.raises(ConfigError) as caught:
        allocated_hosts({"PE_HOSTFILE": str(tmp_path / "hosts")})
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        f"{tmp_path}/hosts:1",
        f"{tmp_path}/hosts:3",
    ]
    assert all(p.endswith("(PE_HOSTFILE of Grid Engine)") for p in caught.value.problems)
    with pytest.raises(ConfigError, match="cannot read the hostfile: No such file or directory"):
        allocated_hosts({"PBS_NODEFILE": str(tmp_path / "gone")})
