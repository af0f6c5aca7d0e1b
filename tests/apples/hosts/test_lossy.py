"""A link that loses messages, between real hosts."""

import json
import sys
import uuid
from pathlib import Path

import pytest
from testbed.description import parse
from testbed.grid import Testbed
from testbed.running import missing

HOSTS = [{"name": "a1"}, {"name": "a2"}, {"name": "far", "delay": "1ms"}]


@pytest.mark.root
@pytest.mark.nightly
def test_probe_names_a_lossy_link():
    why = missing()
    if why:
        pytest.skip(why)
    name = f"lossy-{uuid.uuid4().hex[:8]}"
    with Testbed(parse({"name": name, "defaults": {"memory": "2G"}, "hosts": HOSTS})) as testbed:

        def lossy():
            command = (str(Path(sys.executable).with_name("apples")), "probe", "a1", "a2", "far", "--json")
            result = testbed.run("a1", *command)
            assert result.returncode == 0, result.stderr
            return [
                (host["host"], reason)
                for host in json.loads(result.stdout)["hosts"]
                for reason in host["verdict"]["reasons"]
                if reason.startswith("lossy link")
            ]

        assert lossy() == []
        testbed.change("far", loss=0.025)
        found = lossy()
    assert "far" in dict(found)
    assert all("far" in reason for _, reason in found)
