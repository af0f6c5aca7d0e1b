"""One launch on the login node: OPTIONS (JSON) CHAIN PROGRAM...; the outcome is stdout's last line, JSON."""

import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

from apples.errors import ApplesError
from apples.hosts.agentconnection import LivenessTimeouts
from apples.launching.termination import GracePeriods
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.template import Workload
from apples.slurm import launching as slurm
from apples.slurm.commands import Wishes
from apples.slurm.launching import Cluster

options, chain, *command = json.loads(sys.argv[1]), *sys.argv[2:]
hosts = chain.split(",")
cluster = Cluster(
    hosts=Counter(hosts),
    wishes=Wishes(**options.get("wishes", {})),
    most_s=options.get("most_s", 7200.0),
    enclosing=os.environ.get("SLURM_JOB_ID"),
    left_s=options.get("left_s", 600.0),
    grace=GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0),
    timeouts=LivenessTimeouts(connect_s=60.0, lost_s=options.get("lost_s", 60.0)),
)
with tempfile.TemporaryDirectory(prefix="apples-lab-", dir="/run") as directory:
    plan = unplanned(hosts, scheduler="test", application="test")
    request = LaunchRequest(
        plan=replace(plan, predicted_s=options.get("predicted_s", 0.0), high_s=options.get("high_s", 0.0)),
        workload=Workload(application="test", size=len(hosts)),
        command=tuple(word.replace("RUN_DIR", directory) for word in command),
        run_dir=Path(directory),
        time_limit_s=options.get("time_limit_s"),
        label=options.get("label", False),
    )
    try:
        outcome = slurm.run(request, cluster, lambda line: print(line, file=sys.stderr, flush=True))
    except ApplesError as error:
        print(json.dumps({"error": str(error), "exit_code": error.exit_code}), flush=True)
        sys.exit()
    left = {p.name: p.read_text() for p in Path(directory).glob("*.txt")}
    print(json.dumps({**asdict(outcome), "left": left}), flush=True)
