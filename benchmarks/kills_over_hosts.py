"""Two runs share testbed hosts by a policy over ssh: parts are killed, or the daemons' CPU time is measured.

    sudo python -m benchmarks kills_over_hosts [--times 20] [--kind manager cut …] [--policy gang] [--hosts 2]
    sudo python -m benchmarks kills_over_hosts --cost 60 --hosts 4 [--policy fcs]

manager, node : the machine manager, or one host's node manager, kill -9; both with its watchdog for kind `pair`
agent, launcher : one run's host agent on a host, or its launcher, kill -9; then a new run takes its place
cut : the network of one host, for 1.5 s

Both runs are started on a host of its own. After each failure the states of all ranks are read every few
milliseconds: prints the longest time for which a rank stayed stopped, and the time until the node managers have the
ranks take turns again. Runs that do not get the processors of their turns, because of other programs on the machine,
share them instead (contended, see docs/sharing-hosts.md): prints how often that ended the wait. A time slice is 100
ms. At the end both runs are interrupted, and all processes on the hosts must end. With `--cost` nothing is killed:
prints for each host the CPU time of the daemons as a share of a core. Needs root, as tests/testbed does.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apples.daemons.nodeclient import NodeClient
from apples.daemons.paths import SYSTEM_DIRECTORY
from apples.errors import SharingError
from benchmarks.common.hosts import DESK, cpu_s, left, make_testbed, names_of, pool_of
from benchmarks.common.report import BIN, say
from tests.testbed.grid import Testbed

KINDS = ("manager", "node", "pair", "agent", "launcher", "cut")
RUN = (
    "{bin}/apples-run 64 --app heat -s nx=64 -s ny=64 -s iterations=100000000 --launcher ssh -H {hosts} -n {ranks} "
    "--policy {policy} --attempts 1"
)
#: Seconds: states are read after a failure, a cut lasts, runs must share again, all must have ended, and the first run
#: computes, which compiles its kernel for each host.
LOOK_S, CUT_S, AGAIN_S, END_S, FIRST_S = 2.0, 1.5, 90.0, 30.0, 300.0
#: Command lines of the daemons of a policy on a host.
DAEMONS = {
    "node manager": "main() node ",
    "machine manager": "main() manager ",
    "watchdog": "watchdog",
    "link": "sent program",
}


class Failure(Exception):
    """A rank stays stopped, runs do not share again, or processes are left."""


class Site:
    """Testbed hosts with two runs that share them. state : directory of the runs' state"""

    def __init__(self, bed: Testbed, state: Path, policy: str) -> None:
        self.bed, self.state, self.policy = bed, state, policy
        self.hosts = names_of(bed)
        self.runs: list[subprocess.Popen[bytes]] = []
        #: Whether the runs were contended on a host when `shared` last returned True.
        self.contended = False

    def start(self) -> None:
        """Start one run."""
        pool, ranks = pool_of(self.hosts), len(self.hosts)
        words = RUN.format(bin=BIN, hosts=pool, ranks=ranks, policy=self.policy).split()
        with (self.state / "runs.log").open("ab") as log:
            run = subprocess.Popen(
                self.bed.command(DESK, ["env", f"APPLES_STATE={self.state}", *words]), stdout=log, stderr=log
            )
        self.runs.append(run)

    def found(self, host: str, *words: str) -> list[int]:
        """Return the processes of a host whose command line has all words."""
        return [pid for pid, line in self.bed.processes(host).items() if all(word in line for word in words)]

    def ranks(self) -> list[int]:
        """Return the processes that compute."""
        return [pid for host in self.hosts for pid in self.ranks_on(host)]

    def ranks_on(self, host: str) -> list[int]:
        """Return the processes of a host that compute."""
        return [pid for pid in self.found(host, "stencil_app heat") if is_rank(pid)]

    def wait(self, done: Callable[[], object], what: str, within_s: float) -> float:
        """Wait; return the seconds. Raises `Failure`."""
        started = time.monotonic()
        while not done():
            if time.monotonic() - started > within_s:
                raise Failure(
                    f"{what} not within {within_s:g} s: {(self.state / 'runs.log').read_text()[-1500:]}"
                )
            time.sleep(0.02)
        return time.monotonic() - started

    def shared(self) -> bool:
        """Return whether both ranks of each host are there, and one of them is stopped or both are contended."""
        contended = False
        for host in self.hosts:
            stopped = [state(pid) == "T" for pid in self.ranks_on(host)]
            if stopped == [False, False] and self.share_slots(host):
                contended = True
            elif sorted(stopped) != [False, True]:
                return False
        self.contended = contended
        return True

    def share_slots(self, host: str) -> bool:
        """Return whether a node manager that receives heartbeats has both runs of a host share their slots."""
        for pid in self.found(host, DAEMONS["node manager"]):
            # The host's own /run, as this process sees it.
            socket = Path(f"/proc/{pid}/root{SYSTEM_DIRECTORY}/node-{host}.sock")
            with suppress(SharingError), NodeClient(socket) as client:
                status = client.ask("status")
                return not status["silent"] and len(status["contended"]) == 2
        return False

    def left(self) -> list[str]:
        """Return the processes on all hosts besides the hosts themselves."""
        return left(self.bed, [host.name for host in self.bed.spec.hosts])

    def end(self) -> None:
        """Interrupt the runs and wait until no process is left; raises `Failure`."""
        for pid in self.found(DESK, "python", "apples-run 64"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        try:
            self.wait(lambda: not self.left(), "the end of all processes", END_S)
        except Failure as failure:
            raise Failure("\n".join([*map(str, failure.args), "left:", *self.left()])) from None


def is_rank(pid: int) -> bool:
    """Return whether a process is a rank's program, and not its wrapper or supervisor."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"rankwrapper" not in line and b"hydra" not in line and b"mpiexec" not in line


def state(pid: int) -> str:
    """Return the state of a process as the kernel names it, empty after its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def longest_stop_s(ranks: list[int], during_s: float) -> float:
    """Return the longest time for which one of the processes is stopped, as seen in the next seconds."""
    since: dict[int, float] = {}
    longest, until = 0.0, time.monotonic() + during_s
    while (now := time.monotonic()) < until:
        for pid in ranks:
            if state(pid) == "T":
                longest = max(longest, now - since.setdefault(pid, now))
            else:
                since.pop(pid, None)
        time.sleep(0.004)
    return longest


def strike(site: Site, kind: str, dice: random.Random) -> None:
    """Cause one failure. A victim that has ended by itself is looked for again."""
    host = dice.choice(site.hosts)
    if kind == "cut":
        site.bed.cut(host)
        return
    if kind == "launcher":
        victims = site.found(DESK, "python", "apples-run 64")[:1]
    elif kind == "agent":
        victims = site.found(host, "hostagent.py serve")[:1]
    elif kind == "manager":
        victims = [pid for one in site.hosts for pid in site.found(one, DAEMONS["machine manager"])]
    else:
        victims = site.found(host, DAEMONS["node manager"])
        victims += site.found(host, DAEMONS["watchdog"]) if kind == "pair" else []
    if not victims:
        raise Failure(f"{kind}: no such process on {host}")
    # Two are stopped first: a watchdog ends by itself as soon as it sees the end of its node manager. One is not, as
    # `nsenter` stops itself with its child.
    numbers = (signal.SIGSTOP, signal.SIGKILL) if len(victims) > 1 else (signal.SIGKILL,)
    try:
        for number in numbers:
            for pid in victims:
                os.kill(pid, number)
    except ProcessLookupError:
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        strike(site, kind, dice)


def one_time(site: Site, kind: str, dice: random.Random) -> tuple[float, float, bool]:
    """Return longest stop after a failure, seconds until the runs share again, contended or not; raises `Failure`."""
    site.wait(site.shared, "two runs that share", AGAIN_S)
    time.sleep(dice.uniform(0.2, 0.5))
    ranks, happened = site.ranks(), time.monotonic()
    strike(site, kind, dice)
    stopped_s = longest_stop_s(ranks, CUT_S if kind == "cut" else LOOK_S)
    if kind == "cut":
        for host in site.hosts:
            site.bed.mend(host)
        stopped_s = max(stopped_s, longest_stop_s(ranks, LOOK_S))
    if kind in ("agent", "launcher"):
        site.wait(lambda: any(run.poll() is not None for run in site.runs), "the end of the run", END_S)
        site.runs = [run for run in site.runs if run.poll() is None]
        site.wait(lambda: len(site.ranks()) <= len(site.hosts), "the end of its ranks", END_S)
        site.start()
    site.wait(site.shared, "two runs that share again", AGAIN_S)
    return stopped_s, time.monotonic() - happened, site.contended


def kills(site: Site, kinds: list[str], times: int) -> bool:
    """Print a line for each kind of failure; return whether all is well."""
    dice, good = random.Random(1), True
    for kind in kinds:
        figures = [one_time(site, kind, dice) for _ in range(times)]
        stopped, again, contended = (sorted(column) for column in zip(*figures, strict=True))
        good &= stopped[-1] <= 0.5
        say(
            f"{kind:8} {times} times: stopped for {stopped[times // 2]:.2f} s (median), {stopped[-1]:.2f} s (longest; "
            f"wanted <= 0.5); shared again after {again[times // 2]:.1f} s (median), {again[-1]:.1f} s (longest), "
            f"contended {sum(contended)} times"
        )
    return good


def daemon_cost(site: Site, seconds: float) -> bool:
    """Print the daemons' CPU time on each host as a share of a core; return whether it is at most 0.3 %."""
    site.wait(
        site.shared if site.policy == "gang" else lambda: len(site.ranks()) == 2 * len(site.hosts),
        "runs",
        AGAIN_S,
    )
    time.sleep(5.0)
    good = True
    daemons = {host: {n: site.found(host, word) for n, word in DAEMONS.items()} for host in site.hosts}
    pids = [pid for found in daemons.values() for those in found.values() for pid in those]
    before, started = {pid: cpu_s(pid) for pid in pids}, time.monotonic()
    time.sleep(seconds)
    span_s = time.monotonic() - started
    for host, found in daemons.items():
        shares = {
            name: sum(cpu_s(pid) - before[pid] for pid in those) / span_s
            for name, those in found.items()
            if those
        }
        total = sum(shares.values())
        good &= total <= 0.003
        parts = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
        say(f"{host}: {total:.2%} of a core (wanted <= 0.30 %): {parts}")
    return good


@contextmanager
def sharing(hosts: int, policy: str) -> Iterator[Site]:
    """Bring up hosts with two runs; end them, with all processes."""
    described = [{"name": f"h{n + 1}", "cpuset": (n + 1) % (os.cpu_count() or 1)} for n in range(hosts)]
    with (
        tempfile.TemporaryDirectory(prefix="kills-") as state,
        make_testbed("kills", described, memory="2G") as bed,
    ):
        site = Site(bed, Path(state), policy)
        site.start()
        # The second one finds benchmarks and kernels of the first.
        site.wait(lambda: len(site.ranks()) == hosts, "the first run", FIRST_S)
        site.start()
        yield site
        site.end()


def main(
    *, times: int = 20, kind: tuple[str, ...] = KINDS, policy: str = "gang", hosts: int = 2, cost: float = 0.0
) -> int:
    """Kill parts, or measure.

    cost: seconds; measure the daemons for so long, kill nothing
    """
    # A shell has its background jobs ignore it, and so would the runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with sharing(hosts, policy) as site:
            good = daemon_cost(site, cost) if cost else kills(site, list(kind), times)
    except Failure as failure:
        print(f"failed: {failure}")
        return 1
    print("no process is left" if good else "a bar is missed")
    return 0 if good else 1
