"""A launcher as a program: `launch_once.py RUN_DIR RANKS MARKER LABEL PROGRAM …`; notes and message on stderr."""

from __future__ import annotations

import sys
from pathlib import Path

from apples.launching import mpirun
from apples.launching.mpirun import HostAccess
from apples.launching.termination import GracePeriods
from apples.model.launchrequest import LaunchRequest
from apples.model.plan import Assignment, Plan
from apples.model.template import Workload


def main() -> None:
    run_dir, ranks, marker, label, *command = sys.argv[1:]
    chain = tuple(
        Assignment(rank=r, host="localhost", slot=r, rows=1, compute_s=0.0, communicate_s=0.0, overhead_s=0.0)
        for r in range(int(ranks))
    )
    about = {"scheduler": "test", "application": "test", "model": "none", "size": len(chain)}
    times = dict.fromkeys(("predicted_s", "low_s", "high_s"), 0.0)
    request = LaunchRequest(
        plan=Plan(assignments=chain, **about, **times),
        workload=Workload(application="test", size=len(chain)),
        command=tuple(command),
        run_dir=Path(run_dir),
        label=label == "True",
        environment={"APPLES_TEST_MARKER": marker},
    )
    quick = GracePeriods(together_s=0.2, failure_s=0.3, request_s=0.3, cut_s=1.0)
    access = HostAccess(grace=quick, here=True)
    outcome = mpirun.run(request, access, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{outcome.ended}: {outcome.message}", file=sys.stderr)
    sys.exit(outcome.exit_code)


main()
