"""A job of a real Grid Engine: a run inside it takes the hosts and slots of its parallel environment."""

import json
import sys
import uuid
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testbed import gridengine, running
from testbed.description import parse
from testbed.grid import Testbed

NODES = ("n1", "n2", "n3")
JOB = """#!/bin/sh
export APPLES_STATE={state}
{program} 48 --app heat -s nx=32 -s ny=32 -s iterations=20 --scheduler default --launcher ssh --json >{document}
"""


@pytest.fixture
def cluster():
    why = running.missing() or gridengine.missing()
    if why:
        pytest.skip(why)
    hosts = [{"name": name} for name in ("head", *NODES)]
    name = f"gridengine-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
        made = gridengine.GridEngine(testbed, "head", NODES)
        made.up()
        yield made


@pytest.mark.nightly
def test_run_in_grid_engine_job_takes_its_hosts(cluster, tmp_path):
    script, document = tmp_path / "job.sh", tmp_path / "run.json"
    program = Path(sys.executable).parent / "apples-run"
    script.write_text(JOB.format(state=tmp_path / "state", program=program, document=document))
    ended = cluster.submit(script, slots=4)
    assert ended.returncode == 0, ended.stdout + Path(f"{script}.out").read_text()
    ran = json.loads(document.read_text())
    assert ran["ended"] == "finished"
    slots = {host["host"]: host["slots"] for host in ran["snapshot"]["hosts"]}
    # Four slots over three nodes: round robin gives the second slot to one of them.
    assert sorted(slots) == list(NODES)
    assert sorted(slots.values()) == [1, 1, 2]
    assert sorted(rank["host"] for rank in ran["hosts"]) == sorted(
        h for h, n in slots.items() for _ in range(n)
    )
