"""Two people run over the same testbed hosts: each alone, and both at once under each policy.

    python benchmarks/shared_hosts.py [--launcher ssh|slurm] [--hosts 2] [--policy none --policy auto …] [--pairs 10]
                                      [--rows 64] [--n 256] [--iterations 1200] [--daemons gang] [--slice 100ms]

Each host has one CPU, which two ranks share while both people run. Over ssh each starts at a host of the run; with
Slurm both start at a login node, in a partition that gives each CPU to two jobs. With `--daemons` a machine manager and
node managers of that policy run on the hosts from the beginning, as an administrator installs them. Policies alternate.
Prints for each
policy medians and the largest of two ratios: a run's time beside the other to its time alone, and the time until both
have ended to that of one after the other. Times are those of the ranks, without the plan. Needs root, iproute2 and
openssh-server, and for Slurm its daemons.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.testbed.description import parse  # noqa: E402
from tests.testbed.grid import Testbed  # noqa: E402
from tests.testbed.slurm import Node, Partition, Slurm  # noqa: E402

APPLES_RUN = Path(sys.executable).with_name("apples-run")

LOGIN = "login"

#: What each person's runs have learnt.
STATES = tempfile.mkdtemp(prefix="shared-hosts-")


def spans(bed: Testbed, people: dict[str, str], words: list[str], policy: str) -> list[tuple[float, float]]:
    """Start a run of each person at once; return for each when its ranks started and ended.

    people : the host at which each person starts, by name
    """
    command = [str(APPLES_RUN), *words, "--policy", policy, "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = []
    for person, host in people.items():
        environment = {**os.environ, "APPLES_STATE": f"{STATES}/{person}"}
        runs.append(subprocess.Popen(bed.command(host, command), env=environment, **pipes))
    found = []
    for run in runs:
        out, err = run.communicate(timeout=600)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)}: {err}")
        (attempt,) = json.loads(out)["attempts"]
        found.append((attempt["started_at"], attempt["started_at"] + attempt["observed_s"]))
    return found


def serve(bed: Testbed, names: list[str], policy: str, time_slice: str) -> None:
    """Start a machine manager on the first host and node managers on all, with one key; wait for them."""
    apples, address = str(APPLES_RUN.with_name("apples")), f"{bed.host(names[0]).address}:7171"
    key = Path(STATES) / "sharing.key"
    subprocess.run([apples, "manager", "--new-key", str(key)], check=True, capture_output=True)
    common = ["--key", str(key), "--policy", policy]
    daemons = [(names[0], ["manager", "--listen", address, "--slice", time_slice, *common])]
    daemons += [(name, ["node", "--name", name, "--manager", address, *common]) for name in names]
    for name, words in daemons:
        subprocess.Popen(bed.command(name, [apples, *words]), stderr=subprocess.DEVNULL)
    time.sleep(5.0)
    found = json.loads(bed.run(names[0], apples, "jobs", "--json").stdout)
    if found["nodes"].keys() != set(names):
        raise SystemExit(f"node managers: {sorted(found['nodes'])}, expected {names}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launcher", default="ssh", choices=("ssh", "slurm"))
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--n", type=int, default=256, help="cells of a row along x and y")
    parser.add_argument("--iterations", type=int, default=1200)
    parser.add_argument("--daemons", metavar="POLICY")
    parser.add_argument("--slice", metavar="TIME", default="100ms", help="of the daemons")
    options = parser.parse_args()
    names = [f"h{number}" for number in range(1, options.hosts + 1)]
    spec = {
        "name": f"shared-{os.getpid()}",
        "defaults": {"memory": "2G"},
        "hosts": [{"name": n} for n in (*names, *([LOGIN] if options.launcher == "slurm" else []))],
    }
    slots = ",".join(f"{name}:1" for name in names)
    where = f"-H {slots}" if options.launcher == "ssh" else f"--partition shared -H {','.join(names)}"
    starts = names[:2] if options.launcher == "ssh" else [LOGIN] * 2
    people = {f"person{number}": host for number, host in enumerate(starts)}
    words = [
        *f"{options.rows} --app heat -s nx={options.n} -s ny={options.n} -s iterations={options.iterations}".split(),
        *f"--launcher {options.launcher} {where} -n {len(names)}".split(),
    ]
    each, both = defaultdict(list), defaultdict(list)
    with Testbed(parse(spec)) as bed:
        if options.launcher == "slurm":
            shared = Partition(
                name="shared", nodes=tuple(names), settings="Default=YES OverSubscribe=FORCE:2"
            )
            Slurm(bed, LOGIN, [Node(name=name, cpus=1) for name in names], [shared]).up()
        if options.daemons is not None:
            serve(bed, names, options.daemons, options.slice)
        for person, host in people.items():
            spans(bed, {person: host}, words, "none")
        for pair in range(options.pairs):
            alone = [spans(bed, {person: host}, words, "none")[0] for person, host in people.items()]
            alone_s = [end - start for start, end in alone]
            for policy in options.policy or ["none", "auto", "fcs"]:
                runs = spans(bed, people, words, policy)
                each[policy] += [(b - a) / s for (a, b), s in zip(runs, alone_s, strict=True)]
                span = max(b for _, b in runs) - min(a for a, _ in runs)
                both[policy].append(span / sum(alone_s))
                print(
                    f"pair {pair + 1}, {policy}: alone {alone_s}, both {span:.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
                time.sleep(1.0)
    print(f"{'policy':12} {'a run, × its time alone':>26} {'both, × one after the other':>30}")
    for policy in each:
        one = f"{statistics.median(each[policy]):.2f} (largest {max(each[policy]):.2f})"
        two = f"{statistics.median(both[policy]):.2f} (largest {max(both[policy]):.2f})"
        print(f"{policy:12} {one:>26} {two:>30}")


if __name__ == "__main__":
    main()
