"""A job of a real OAR: a run inside it takes the hosts and slots of its resources."""

import json
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testbed import oar, running
from testbed.description import parse
from testbed.grid import Testbed

NODES = ("n1", "n2", "n3")
JOB = """#!/bin/sh
export APPLES_STATE={state}
cp $OAR_NODEFILE {listed}
{program} 48 --app heat -s nx=32 -s ny=32 -s iterations=20 --scheduler default --launcher ssh --json >{document}
"""


@pytest.fixture
def cluster():
    why = running.missing() or oar.missing()
    if why:
        pytest.skip(why)
    hosts = [{"name": name} for name in ("head", *NODES)]
    name = f"oar-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
        made = oar.Oar(testbed, "head", NODES)
        made.up()
        yield made


@pytest.mark.nightly
def test_run_in_oar_job_takes_its_hosts(cluster, tmp_path):
    script, document, listed = tmp_path / "job.sh", tmp_path / "run.json", tmp_path / "nodes"
    program = Path(sys.executable).parent / "apples-run"
    script.write_text(JOB.format(state=tmp_path / "state", program=program, document=document, listed=listed))
    ended = cluster.submit(script, resources=4)
    assert ended == 0, Path(f"{script}.out").read_text()
    ran = json.loads(document.read_text())
    assert ran["ended"] == "finished"
    slots = {host["host"]: host["slots"] for host in ran["snapshot"]["hosts"]}
    # OAR lists a host once for each of its resources in the job, here the first one twice.
    assert slots == Counter(listed.read_text().split()) == {"n1": 2, "n2": 1, "n3": 1}
    assert sorted(rank["host"] for rank in ran["hosts"]) == sorted(
        h for h, n in slots.items() for _ in range(n)
    )
