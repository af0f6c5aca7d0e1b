"""What tests get of Slurm: a cluster of four nodes, one for each process of tests, or the reason why there is none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from . import running
from .description import parse
from .grid import Testbed
from .slurm import Node, Partition, Slurm, missing

NODES = ("n1", "n2", "n3", "n4")

PARTITIONS = (
    Partition(name="all", nodes=NODES, settings="Default=YES MaxTime=2:00:00"),
    Partition(name="short", nodes=NODES[:2], settings="MaxTime=2"),
    Partition(name="urgent", nodes=NODES, settings="PriorityTier=10 PreemptMode=OFF"),
    Partition(name="guarded", nodes=NODES[:2], settings="AllowAccounts=physics"),
    Partition(name="shared", nodes=NODES[:2], settings="OverSubscribe=FORCE:4"),
    Partition(name="closed", nodes=NODES[:2], settings="State=DOWN"),
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Slurm]:
    """A controller and login node, `head`, and nodes that are idle; what a test changes it puts back."""
    why = running.missing() or missing()
    if why:
        pytest.skip(why)
    hosts = [{"name": name} for name in ("head", *NODES)]
    name = f"slurm-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
        nodes = [Node(name=node, features="big" if node == "n4" else "") for node in NODES]
        slurm = Slurm(testbed, "head", nodes, PARTITIONS)
        slurm.up()
        yield slurm
