"""A real OAR on the hosts of a testbed: the server and its database on the first, an sshd for jobs on the others.

Its configuration, its user's home and its database lie in the testbed's directory; the first two are mounted over those
of the Debian packages on each host, so that clients find them and they are removed with the testbed. On a testbed jobs
are root's, so OAR's admission rule that refuses them is left out.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .batchsystem import BatchSystem
from .errors import TestbedError
from .host import HERE

#: Files that are used, as patterns below `/`, and the Debian package of each.
NEEDED = {
    "usr/sbin/oar-server": "oar-server",
    "usr/bin/oarsub": "oar-user",
    "usr/share/oar/oar-node/sshd_config": "oar-node",
    "usr/lib/*/perl5/*/DBD/Pg.pm": "libdbd-pg-perl",
    "usr/lib/postgresql/*/bin/pg_ctl": "postgresql",
    "etc/oar": "oar-common",
    "var/lib/oar": "oar-common",
}

CONFIGURATION, HOME = "/etc/oar", "/var/lib/oar"
SHARED = Path("/usr/share/oar")
TABLES = ("pg_structure.sql", "default_data.sql", "pg_default_admission_rules.sql")

#: Seconds until the server listens, and until a job has ended.
UP_S, JOB_S = 60.0, 180.0

#: Settings that differ from the package's: a log of its own, resources in the order of their numbers, no pauses.
SETTINGS = {
    "DB_BASE_PASSWD": "none",
    "DB_BASE_LOGIN_RO": "oar",
    "DB_BASE_PASSWD_RO": "none",
    "LOG_FILE": f"{HERE}/oar/log/oar.log",
    "SCHEDULER_RESOURCE_ORDER": "resource_id ASC",
    "SCHEDULER_MIN_TIME_BETWEEN_2_CALLS": "0",
}
#: With this one, jobs run in control groups that OAR makes on each node.
LEFT_OUT = "JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD="

SSH = f"IdentityFile {HOME}/.ssh/id\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"


def missing() -> str:
    """Return the reason why no OAR can be started here besides a testbed's needs; empty if one can."""
    for pattern, package in NEEDED.items():
        if not any(Path("/").glob(pattern)):
            return f"OAR on a testbed needs /{pattern}, of the Debian package {package}"
    return ""


class Oar(BatchSystem):
    """A cluster on a testbed that is up; it ends with the testbed. slots : resources of each node"""

    name = "oar"
    #: Clients of OAR are scripts that take their time from the job's.
    pause_s = 1.0

    def up(self) -> None:
        """Start it and wait until its server listens; raises `TestbedError`."""
        for directory in ("etc", "home/.ssh", "database", "log"):
            (self.directory / directory).mkdir(parents=True)
        self._write_files()
        here = f"{HERE}/oar"
        self.script(
            self.server, f"chown -R oar:oar {here}/home {here}/log\nchown postgres:postgres {here}/database"
        )
        for host in (self.server, *self.nodes):
            self.script(host, f"mount --bind {here}/etc {CONFIGURATION}\nmount --bind {here}/home {HOME}")
        self._start_database()
        for node in self.nodes:
            self.script(
                node, f"/usr/sbin/sshd -E {here}/log/sshd-{node}.log -f {SHARED}/oar-node/sshd_config"
            )
        for _ in range(self.slots):
            # Resources are numbered in this order: one of each node, then the second ones.
            self.asked(
                "/usr/sbin/oarnodesetting", "-a", *(word for node in self.nodes for word in ("-h", node))
            )
        self.script(self.server, "/usr/sbin/oar-server")
        self.until(self._listens, "the server does not listen", UP_S)

    def submit(self, script: Path, resources: int) -> int:
        """Run a job script with these resources to its end and return its exit code; its output is in `SCRIPT.out`."""
        output = f"{script}.out"
        words = ("-l", f"resource_id={resources}", "-d", str(script.parent), "-O", output, "-E", output)
        job = self._found(r"OAR_JOB_ID=(\d+)", "oarsub", *words, f"sh {script}")
        self.until(lambda: self._has_ended(job), f"job {job} does not end", JOB_S)
        return os.waitstatus_to_exitcode(int(self._found(r"exit_code = (\d+)", "oarstat", "-f", "-j", job)))

    def _write_files(self) -> None:
        lines = (SHARED / "oar-common/oar.conf").read_text().splitlines()
        lines = [line for line in lines if not line.startswith(LEFT_OUT)]
        # Of several lines with one key the last holds.
        lines += [f'{key}="{value}"' for key, value in (SETTINGS | {"SERVER_HOSTNAME": self.server}).items()]
        (self.directory / "etc/oar.conf").write_text("\n".join(lines) + "\n")
        shutil.copy(SHARED / "oar-server/scheduler_quotas.conf", self.directory / "etc")
        keys, own = self.testbed.directory / "ssh", self.directory / "home/.ssh"
        # The name that the nodes' sshd expects.
        shutil.copy(keys / f"host_{self.server}", self.directory / "etc/oar_ssh_host_rsa_key")
        shutil.copy(keys / "id", own / "id")
        (own / "authorized_keys").write_text(f'environment="OAR_KEY=1" {(keys / "id.pub").read_text()}')
        (own / "config").write_text(SSH)

    def _start_database(self) -> None:
        programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        data, client = f"{HERE}/oar/database", "-h 127.0.0.1 -U oar"
        tables = " ".join(f"-f /usr/lib/oar/database/{name}" for name in TABLES)
        options = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        lines = (
            "cd /",
            f"PATH={programs}:$PATH",
            'postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }',
            f"postgres initdb -D {data} -U oar -A trust --no-sync --locale=C",
            f"postgres pg_ctl -D {data} -l {data}/postgres.log -w -o '{options}' start",
            f"createdb {client} oar",
            f"psql {client} -q -v ON_ERROR_STOP=1 {tables} oar",
            f"""psql {client} -c "DELETE FROM admission_rules WHERE rule LIKE '%\\$user eq \\"root\\"%'" oar""",
        )
        self.script(self.server, "\n".join(lines))

    def _listens(self) -> bool:
        return self.called("bash", "-c", f"</dev/tcp/{self.server}/6666").returncode == 0

    def _has_ended(self, job: str) -> bool:
        return self._found(r": (\w+)", "oarstat", "-s", "-j", job) in ("Terminated", "Error")

    def _found(self, pattern: str, *command: str) -> str:
        """Return the group of a pattern in a command's output."""
        output = self.asked(*command)
        found = re.search(pattern, output)
        if found is None:
            raise TestbedError(f"{' '.join(command)}: {output}{self.logs()}")
        return found[1]
