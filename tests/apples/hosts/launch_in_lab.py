"""One launch inside a host of the lab: CHAIN OWN_NAME LOST_S PROGRAM...; the outcome is stdout's last line, JSON.

With `block` before the program, its ranks block while they wait.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from apples.coscheduling.events import Wait
from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.termination import GracePeriods
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from apples.monitoring.job import MonitoredRun

chain, own, lost_s, *command = sys.argv[1:]
hosts = chain.split(",")
places = {h: HostAddress(host=h, address=None if h == own else h, interface="eth0") for h in set(hosts)}
access = HostAccess(
    addresses=places,
    grace=GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0),
    timeouts=LivenessTimeouts(connect_s=60.0, lost_s=float(lost_s)),
)
with tempfile.TemporaryDirectory(prefix="apples-lab-", dir="/run") as directory:
    environment = {}
    if command[0] == "block":
        environment = MonitoredRun(wait=Wait.SPIN_BLOCK).environment(Path(directory))
    request = LaunchRequest(
        plan=unplanned(hosts, scheduler="test", application="test"),
        workload=Workload(application="test", size=len(hosts)),
        command=tuple(word.replace("RUN_DIR", directory) for word in command if word != "block"),
        environment=environment,
        run_dir=Path(directory),
    )
    outcome = mpirun.run(request, access, lambda line: print(line, file=sys.stderr))
    left = {p.name: p.read_text() for p in (*Path(directory).glob("*.txt"), *Path(directory).glob(".answer"))}
    print(json.dumps({**asdict(outcome), "left": left}), flush=True)
