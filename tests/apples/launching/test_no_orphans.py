"""No rank is left after any process of a run is killed without warning.

launcher ── agent ── mpiexec ── proxy ── wrapper ── supervisor ── program
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys

import pytest

STUBBORN = ("sh", "-c", "trap '' INT TERM HUP ALRM; while :; do sleep 1; done")
#: One write per line, whatever PYTHONUNBUFFERED says.
MPI = "from mpi4py import MPI; import os, time; MPI.COMM_WORLD.barrier(); os.write(1, b'in\\n'); time.sleep(600)"


@pytest.mark.parametrize(
    "part", ["launcher", "agent", "mpiexec", "proxy", "wrapper", "supervisor", "program"]
)
def test_killed_process_leaves_no_rank(launch, runs, wait_for, part: str) -> None:
    launched = launch(*STUBBORN)
    launched.wait_until_running()
    chain = launched.chain()
    assert [len(chain[name]) for name in chain] == [1, 1, 1, 1, 2, 2, 2]
    os.kill(chain[part][-1], signal.SIGKILL)
    wait_for(lambda: not runs.left())
    returned, _, err = launched.ended()
    if part == "launcher":
        assert returned == -signal.SIGKILL
    elif part == "program":
        assert returned == 137
        assert "was killed by signal 9 (KILL)" in err
    else:
        assert returned == 125
        assert re.match(
            r"(the launcher ended ranks? .* by KILL(; killed \d process.* had left)?\n)?failed: ", err
        )


@pytest.mark.parametrize(
    "part",
    ["launcher", "mpiexec", "program"]
    + [pytest.param(part, marks=pytest.mark.nightly) for part in ("agent", "proxy", "supervisor")],
)
def test_killed_process_leaves_no_mpi_rank(launch, runs, wait_for, part: str) -> None:
    launched = launch(sys.executable, "-c", MPI)
    for _ in range(2):
        assert launched.process.stdout.readline() == "in\n"
    os.kill(launched.chain()[part][-1], signal.SIGKILL)
    wait_for(lambda: not runs.left())
    launched.ended()


def test_all_above_the_supervisors_killed_leaves_no_rank(launch, runs, wait_for) -> None:
    launched = launch(*STUBBORN)
    launched.wait_until_running()
    chain = launched.chain()
    for part in ("launcher", "agent", "mpiexec", "proxy", "wrapper"):
        for pid in chain[part]:
            # The kernel may have killed it with its parent.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not runs.left())


def test_launcher_killed_with_stopped_proxy_leaves_no_rank(launch, runs, wait_for) -> None:
    launched = launch(*STUBBORN)
    launched.wait_until_running()
    chain = launched.chain()
    os.kill(chain["proxy"][0], signal.SIGSTOP)
    os.kill(chain["launcher"][0], signal.SIGKILL)
    programs = set(chain["program"])
    wait_for(lambda: not programs & set(runs.left()))
    os.kill(chain["proxy"][0], signal.SIGCONT)


def test_launcher_killed_during_start_leaves_no_rank(launch, runs, wait_for) -> None:
    launched = launch(*STUBBORN, ranks=6)
    wait_for(lambda: runs.left())
    launched.process.kill()
    wait_for(lambda: not runs.left())


def test_killed_supervisor_is_named_as_vanished(launch) -> None:
    launched = launch(*STUBBORN)
    launched.wait_until_running()
    os.kill(launched.chain()["supervisor"][0], signal.SIGKILL)
    returned, _, err = launched.ended()
    assert returned == 125
    assert "vanished without a status: its supervisor was killed" in err


def test_killed_proxy_blames_no_rank(launch) -> None:
    launched = launch(*STUBBORN)
    launched.wait_until_running()
    os.kill(launched.chain()["proxy"][0], signal.SIGKILL)
    _, _, err = launched.ended()
    assert "the ranks were ended because mpiexec or hydra_pmi_proxy was killed; none failed by itself" in err
