"""Hosts that are real enough: names, keys, limits, links that can be cut, and nothing left of any of it."""

import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from .errors import TestbedError
from .limits import Groups

TESTS = Path(__file__).resolve().parent.parent


def wait_for(what, within_s=30.0):
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def ssh(lab, source, target, command, *options):
    return lab.run(source, "ssh", "-o", "BatchMode=yes", *options, target, command)


def test_hosts_call_each_other_by_name_with_the_testbeds_key(lab):
    result = ssh(lab, "a1", "a2", "hostname; cat /proc/net/dev")
    assert result.returncode == 0, result.stderr
    name, _, devices = result.stdout.partition("\n")
    assert name == "a2"
    assert sorted(re.findall(r"^ *(\w+):", devices, re.MULTILINE)) == ["eth0", "lo"]


def test_host_refuses_and_another_is_not_known(lab):
    refused = ssh(lab, "a1", "locked", "true")
    assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True)
    unknown = ssh(lab, "a1", "stranger", "true")
    assert (unknown.returncode, "Host key verification failed" in unknown.stderr) == (255, True)


def test_host_has_files_of_its_own(lab, tmp_path):
    shared = tmp_path / "shared"
    shared.write_text("x")
    lab.run("a2", "sh", "-c", "echo mine > /dev/shm/own; echo mine > /run/own")
    lab.run("own-files", "sh", "-c", "echo mine > /var/tmp/own")
    seen = lab.run("a3", "sh", "-c", f"cat {shared}; ls /dev/shm/own /run/own /sys/class/net")
    assert seen.stdout.split() == ["x/sys/class/net:", "eth0", "lo"]
    assert not Path("/dev/shm/own").exists()
    assert not Path("/run/own").exists()
    assert lab.run("own-files", "ls", "/var/tmp").stdout == "own\n"
    assert not Path("/var/tmp/own").exists()


def test_limits_are_seen_inside_and_change_while_it_runs(lab):
    program = (
        "from nws.sensors.cgrouplimits import Cgroups as C; "
        "print([round(x.cpus, 2) for x in C().cpu_limits()], [int(x.limit_bytes) for x in C().memory_limits()])"
    )
    lab.change("a3", cpu=0.25, memory="512M")
    try:
        assert lab.run("a3", sys.executable, "-c", program).stdout.strip() == f"[0.25] [{512 << 20}]"
    finally:
        lab.change("a3", cpu=1.0, memory="2G")
    assert lab.run("a3", sys.executable, "-c", program).stdout.strip() == f"[] [{2 << 30}]"
    with pytest.raises(TestbedError, match=r"a3: cannot change slots; legal are cpu, memory, rate, delay"):
        lab.change("a3", slots=2)


def test_link_is_cut_and_mended(lab):
    def reached():
        return ssh(lab, "a1", "a3", "true", "-o", "ConnectTimeout=1").returncode == 0

    assert reached()
    lab.cut("a3")
    try:
        assert not reached()
    finally:
        lab.mend("a3")
    wait_for(reached)


def test_frozen_host_goes_on_where_it_stood(lab):
    counting = subprocess.Popen(
        lab.command("a2", ["sh", "-c", "while :; do echo; sleep 0.02; done"]), stdout=subprocess.PIPE
    )
    try:
        counting.stdout.read(3)
        lab.freeze("a2")
        os.set_blocking(counting.stdout.fileno(), False)
        while counting.stdout.read(4096):
            continue
        assert not counting.stdout.read(1)
        lab.thaw("a2")
        wait_for(lambda: counting.stdout.read(1))
    finally:
        lab.thaw("a2")
        counting.kill()
        # The loop in the host goes on without this process, until its output is closed: that has no end.
        counting.stdout.close()
        counting.wait()


def test_host_without_power_comes_back(lab):
    lab.crash("a3")
    assert not lab.is_up("a3")
    assert lab.processes("a3") == {}
    with pytest.raises(TestbedError, match="host a3 is off; start it"):
        lab.command("a3", ["true"])
    lab.start("a3")
    lab.start("a3")
    assert ssh(lab, "a1", "a3", "hostname").stdout == "a3\n"


def test_testbed_whose_owner_was_killed_is_taken_down(lab):
    name = f"orphan-{uuid.uuid4().hex[:8]}"
    program = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(TESTS)!r})\n"
        "from testbed.description import parse\n"
        "from testbed.grid import Testbed\n"
        "sites = {'east': {'delay': '1ms', 'rate': '10mbit'}, 'west': {}}\n"
        "hosts = [{'name': 'e', 'rate': '1mbit', 'delay': '1ms'}, {'name': 'w', 'site': 'west'}]\n"
        f"with Testbed(parse({{'name': {name!r}, 'sites': sites, 'hosts': hosts}})) as testbed:\n"
        "    code = testbed.run('e', 'ssh', '-o', 'BatchMode=yes', 'w', 'true').returncode\n"
        "    print('up', code, flush=True)\n"
        "    time.sleep(600)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "up 0\n"
    groups = Groups(name)
    assert len(groups.processes()) >= 6
    owner.kill()
    owner.communicate()
    wait_for(lambda: not any(directory.exists() for directory in groups.directories()))
    assert not (lab.directory.parent / f"testbed-{name}").exists()
    inside = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"^(up|wan|h|site)\d", inside, re.MULTILINE)
