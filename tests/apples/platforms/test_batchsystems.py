"""A job of a real Grid Engine or OAR: a run inside it takes the hosts and slots that the job was given."""

import json
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testbed import gridengine, oar, running
from testbed.description import parse
from testbed.grid import Testbed

from tests.transcripts import text_of

NODES = ("n1", "n2", "n3")
KINDS = {"gridengine": (gridengine, gridengine.GridEngine), "oar": (oar, oar.Oar)}
#: Grid Engine writes lines of a host and its slots, OAR a host once for each of its resources.
JOB = text_of("apples/platforms/batch_job.txt")


@pytest.fixture
def cluster(request):
    module, kind = KINDS[request.param]
    why = running.missing() or module.missing()
    if why:
        pytest.skip(why)
    hosts = [{"name": name} for name in ("head", *NODES)]
    name = f"{request.param}-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
        made = kind(testbed, "head", NODES)
        made.up()
        yield made


@pytest.mark.nightly
@pytest.mark.parametrize("cluster", KINDS, indirect=True)
def test_run_in_a_job_takes_its_hosts(cluster, tmp_path):
    script = tmp_path / "job.sh"
    program = Path(sys.executable).parent / "apples-run"
    script.write_text(JOB.format(directory=tmp_path, program=program))
    assert cluster.submit(script, 4) == 0, Path(f"{script}.out").read_text()
    ran = json.loads((tmp_path / "run.json").read_text())
    assert ran["ended"] == "finished"
    slots = {host["host"]: host["slots"] for host in ran["snapshot"]["hosts"]}
    # Four slots over three nodes: one of them has a second one.
    assert sorted(slots) == list(NODES)
    assert sorted(slots.values()) == [1, 1, 2]
    listed = [line.split() for line in (tmp_path / "nodes").read_text().splitlines()]
    assert slots == (
        Counter(h for (h,) in listed) if cluster.name == "oar" else {h: int(n) for h, n, *_ in listed}
    )
    assert Counter(rank["host"] for rank in ran["hosts"]) == slots
