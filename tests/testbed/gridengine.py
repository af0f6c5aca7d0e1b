"""A real Grid Engine on the hosts of a testbed: the master daemon on the first, an execution daemon on the others.

Its cell and its spool lie in the testbed's directory and are mounted over those of the Debian packages on each host,
so that clients find them and they are removed with the testbed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .batchsystem import BatchSystem
from .host import HERE

#: Programs that are called, and the Debian package of each.
NEEDED = {
    "/usr/sbin/sge_qmaster": "gridengine-master",
    "/usr/sbin/sge_execd": "gridengine-exec",
    "qsub": "gridengine-client",
}

CELL, SPOOL = "/var/lib/gridengine/default", "/var/spool/gridengine"
SHARED = Path("/usr/share/gridengine")

#: Seconds until the master answers, and until all execution daemons have reported.
UP_S = 60.0

#: Settings that differ from `default-configuration`: jobs of root, and reports at once.
CONFIGURATION = {"min_uid": "0", "min_gid": "0", "load_report_time": "00:00:01", "mailer": "/bin/true"}
BOOTSTRAP = {"admin_user": "root"}
#: Jobs start when they are submitted, not at the next interval of the scheduler.
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}


def missing() -> str:
    """Return the reason why no Grid Engine can be started here besides a testbed's needs; empty if one can."""
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            return f"Grid Engine on a testbed needs {program}, of the Debian package {package}"
    for directory in (CELL, SPOOL):
        if not Path(directory).is_dir():
            return (
                f"Grid Engine on a testbed needs the directory {directory}, of the package gridengine-master"
            )
    return ""


class GridEngine(BatchSystem):
    """A cluster on a testbed that is up; it ends with the testbed. slots : of each node in the parallel environment"""

    name = "gridengine"
    environment = (
        "SGE_ROOT=/var/lib/gridengine",
        "SGE_CELL=default",
        "SGE_QMASTER_PORT=6444",
        "SGE_EXECD_PORT=6445",
    )
    logs_like = "messages"

    def up(self) -> None:
        """Start it and wait until all nodes have reported; raises `TestbedError`."""
        for directory in ("cell/common", "spool/qmaster/job_scripts", "spool/spooldb", "spool/execd"):
            (self.directory / directory).mkdir(parents=True)
        common = self.directory / "cell" / "common"
        (common / "bootstrap").write_text(_changed(SHARED / "default-bootstrap", BOOTSTRAP))
        (common / "act_qmaster").write_text(self.server + "\n")
        settings = _changed(SHARED / "default-configuration", CONFIGURATION)
        (self.directory / "configuration").write_text(settings)
        script = (SHARED / "scripts/init_cluster").read_text()
        script = script.replace(str(SHARED / "default-configuration"), f"{HERE}/gridengine/configuration")
        (self.directory / "init_cluster").write_text(script)
        for host in (self.server, *self.nodes):
            self.script(
                host,
                f"mount --bind {HERE}/gridengine/cell {CELL}\nmount --bind {HERE}/gridengine/spool {SPOOL}\n"
                "mkdir -p /run/gridengine",
            )
        init = f"sh {HERE}/gridengine/init_cluster /var/lib/gridengine default {SPOOL}/spooldb root"
        self.script(self.server, f"{init}\n{' '.join(self.environment)} /usr/sbin/sge_qmaster")
        self.until(lambda: self.called("qconf", "-sh").returncode == 0, "the master does not answer", UP_S)
        self._configure()
        for node in self.nodes:
            self.script(node, f"{' '.join(self.environment)} /usr/sbin/sge_execd")
        self.until(self._all_report, "nodes have not reported", UP_S)

    def submit(self, script: Path, slots: int) -> int:
        """Run a job script with these slots to its end and return its exit code; its output is in `SCRIPT.out`."""
        words = ("-sync", "y", "-pe", "spread", str(slots), "-S", "/bin/sh", "-j", "y", "-o", f"{script}.out")
        return self.called("qsub", *words, str(script)).returncode

    def _configure(self) -> None:
        """Make the nodes' queue and a parallel environment that takes the slots of one node after the other."""
        for node in self.nodes:
            self.asked("qconf", "-ah", node)
        self.asked("qconf", "-as", self.server)
        written = {
            "hosts": f"group_name @nodes\nhostlist {' '.join(self.nodes)}\n",
            "spread": _text(
                pe_name="spread",
                slots="999",
                allocation_rule="$round_robin",
                control_slaves="TRUE",
                job_is_first_task="FALSE",
                urgency_slots="min",
                accounting_summary="FALSE",
                **dict.fromkeys(
                    ("user_lists", "xuser_lists", "start_proc_args", "stop_proc_args", "qsort_args"), "NONE"
                ),
            ),
        }
        for name, text in written.items():
            (self.directory / name).write_text(text)
        self.asked("qconf", "-Ahgrp", f"{HERE}/gridengine/hosts")
        self.asked("qconf", "-Ap", f"{HERE}/gridengine/spread")
        queue = self.directory / "queue"
        # Without a queue this prints the template of one.
        queue.write_text(self.asked("qconf", "-sq"))
        wanted = {
            "qname": "all.q",
            "hostlist": "@nodes",
            "slots": str(self.slots),
            "pe_list": "spread",
            "load_thresholds": "NONE",
            "shell": "/bin/sh",
        }
        queue.write_text(_changed(queue, wanted))
        self.asked("qconf", "-Aq", f"{HERE}/gridengine/queue")
        scheduler = self.directory / "scheduler"
        scheduler.write_text(self.asked("qconf", "-ssconf"))
        scheduler.write_text(_changed(scheduler, SCHEDULER))
        self.asked("qconf", "-Msconf", f"{HERE}/gridengine/scheduler")

    def _all_report(self) -> bool:
        lines = [line.split() for line in self.called("qhost").stdout.splitlines()]
        return {words[0] for words in lines if words and words[3:4] != ["-"]} >= set(self.nodes)


def _text(**values: str) -> str:
    return "".join(f"{key} {value}\n" for key, value in values.items())


def _changed(file: Path, values: dict[str, str]) -> str:
    """Return the text of a file of `key value` lines with other values for some keys."""
    lines = []
    for line in file.read_text().splitlines():
        key = line.split(None, 1)[0] if line.strip() else ""
        lines.append(f"{key} {values[key]}" if key in values else line)
    return "\n".join(lines) + "\n"
