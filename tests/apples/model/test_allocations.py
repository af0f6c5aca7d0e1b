"""Hosts of allocations, from the files that batch systems write."""

from apples.errors import ConfigError
from apples.model.allocations import allocated_hosts
from tests.transcripts import recorded


@recorded("apples/model/allocations.txt", "variable", "text")
def test_hosts_of_an_allocation_are_as_recorded(tmp_path, answered, variable, text):
    path = tmp_path / "hosts"
    if text is not None:
        path.write_text(text)
    try:
        allocation = allocated_hosts({variable: str(path)})
    except ConfigError as refusal:
        answered(str(refusal).replace(str(path), "FILE"))
    else:
        answered(allocation and [allocation[0], *(f"{host.name}: {host.slots}" for host in allocation[1])])


def test_hosts_outside_an_allocation_are_none():
    assert allocated_hosts({"PBS_NODEFILE": "", "HOME": "/root"}) is None
