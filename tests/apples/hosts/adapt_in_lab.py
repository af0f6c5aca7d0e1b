"""One adapted run started inside a host of the lab: CHAIN; stdout's last line is JSON of what its controller heard."""

import json
import sys
import tempfile
from pathlib import Path

from apples.hosts.agentconnection import HostAddress, LivenessTimeouts
from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import unplanned
from apples.model.progress import CheckpointAndEnd, NewSlabs
from apples.model.template import Workload

hosts = sys.argv[1].split(",")
#: Heights to order, one after the other; the second cannot be.
ORDERS = [(20, 4), (20, 5), (6, 18)]


class Ordering:
    """Orders the next heights when it has heard what became of the last; the run ends after the last."""

    report_every_s = 0.05

    def __init__(self):
        self.heard, self.refused, self.waiting = [], [], list(ORDERS)

    def hear(self, told):
        if not self.heard or self.heard[-1] != list(told.rows):
            self.heard.append(list(told.rows))
        settled = told.moved_s is not None or told.refused is not None or told.moves == 0
        if told.refused is not None:
            self.refused.append(told.refused)
        if self.waiting and settled and (len(self.waiting) < len(ORDERS)) == (told.moves > 0):
            return NewSlabs(rows=self.waiting.pop(0))
        return CheckpointAndEnd(why="all was tried") if told.moves == 2 else None

    def ended(self):
        return ()


with tempfile.TemporaryDirectory(prefix="apples-lab-", dir="/run") as directory:
    controller = Ordering()
    heat = "heat --slabs 12,12 --nx 48 --ny 48 --iterations 1000000"
    request = LaunchRequest(
        plan=unplanned(hosts, scheduler="test", application="heat"),
        workload=Workload(application="heat", size=24),
        command=(sys.executable, "-m", "stencil_app", *heat.split()),
        run_dir=Path(directory),
        controller=controller,
    )
    places = {host: HostAddress(host=host, address=host, interface="eth0") for host in hosts}
    access = HostAccess(addresses=places, timeouts=LivenessTimeouts(connect_s=60.0, lost_s=60.0))
    outcome = mpirun.run(request, access, lambda line: None)
    told = {
        "ended": outcome.ended,
        "message": outcome.message,
        "rows": controller.heard,
        "refused": controller.refused,
    }
    print(json.dumps(told), flush=True)
