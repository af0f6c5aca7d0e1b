"""One host's birth: namespaces, files of its own, sshd. Its death is that of its control groups.

A host sees the machine's file system, which stands in for a shared one, with a /run, /dev/shm, /etc/hosts and /sys
of its own, and whatever its file calls private. What it needs of the testbed's directory it sees under /run/testbed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

from .description import HostSpec
from .errors import TestbedError
from .limits import Groups

HERE = "/run/testbed"
#: Seconds a host may take to be there.
BOOT_S = 30.0
FAKETIME = "faketime/libfaketimeMT.so.1"


def faketime_library() -> Path | None:
    """The library that gives processes another clock; None where it is not installed (Debian: libfaketime)."""
    return next(iter(Path("/usr/lib").glob(f"*/{FAKETIME}")), None)


def sshd_config(host: HostSpec) -> str:
    """Settings of a host's sshd: one key, no passwords, and the clock the file asks for."""
    keys = f"{HERE}/ssh/id.pub" if host.login else "none"
    lines = [
        "Port 22",
        f"HostKey {HERE}/ssh/host_{host.name}",
        f"AuthorizedKeysFile {keys}",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "StrictModes no",
        "PidFile none",
        "MaxStartups 200",
        "MaxSessions 200",
        "UseDNS no",
        "PrintMotd no",
    ]
    if host.clock is not None:
        library = faketime_library()
        if library is None:
            raise TestbedError(f"{host.name}: a clock needs the Debian package libfaketime")
        lines.append(f"SetEnv LD_PRELOAD={library} FAKETIME={host.clock}")
    return "\n".join(lines) + "\n"


def ssh_config() -> str:
    """Settings of every client: the testbed's key, and the host keys it has made."""
    return (
        f"Host *\n  IdentityFile {HERE}/ssh/id\n  IdentitiesOnly yes\n  UserKnownHostsFile /run/known_hosts\n"
        f"  GlobalKnownHostsFile {HERE}/ssh/known_hosts\n  UpdateHostKeys no\n  KexAlgorithms curve25519-sha256\n"
    )


def hosts_file(hosts: tuple[HostSpec, ...], own: HostSpec) -> str:
    """/etc/hosts of one host."""
    lines = ["127.0.0.1 localhost"]
    for host in hosts:
        address = own.own_name if host.name == own.name and own.own_name is not None else host.address
        lines.append(f"{address} {host.name}")
    return "\n".join(lines) + "\n"


def boot_script(host: HostSpec, directory: Path, groups: Groups) -> str:
    """What the first process of a host does, in namespaces that are its own already."""
    home = Path.home()
    mounts, places = [], groups.mounts(host.name)
    if places[0][1]:
        for group, controller in places:
            kept = f"/run/groups/{controller}"
            mounts += [f"mkdir -p {kept}", f"mount --bind {group} {kept}"]
        back = [
            f"mkdir /sys/fs/cgroup/{c}\nmount --move /run/groups/{c} /sys/fs/cgroup/{c}" for _, c in places
        ]
        back.insert(0, "mount -t tmpfs tmpfs /sys/fs/cgroup")
    else:
        back = ["mount -t cgroup2 none /sys/fs/cgroup"]
    personal = [f"mount -t tmpfs -o mode=700 tmpfs {home}/.ssh"] if (home / ".ssh").is_dir() else []
    # what the machine's user has there would run at each login, and may print
    personal += [
        f"mount --bind /dev/null {home / name}" for name in (".bashrc", ".profile") if (home / name).is_file()
    ]
    own = directory / "hosts" / host.name
    lines = [
        "set -e",
        f"hostname {host.name}",
        "mount -t tmpfs -o mode=755 tmpfs /run",
        f"mkdir -p /run/sshd {HERE}",
        f"mount --bind {shlex.quote(str(directory))} {HERE}",
        *mounts,
        # the machine's own below it would stay in the list of mounts
        "umount -lR /sys",
        "mount -t sysfs sysfs /sys",
        *back,
        "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        f"mount --bind {own}/etc_hosts /etc/hosts",
        f"mount --bind {own}/resolv.conf /etc/resolv.conf",
        f"mount --bind {directory}/ssh/config /etc/ssh/ssh_config",
        *personal,
        *(f"mount -t tmpfs -o mode=1777 tmpfs {shlex.quote(path)}" for path in host.private),
        *([f"mount --bind {shlex.quote(host.python)} /usr/bin/python3"] if host.python else []),
        "ip link set lo up",
        f"/usr/sbin/sshd -D -e -f {HERE}/hosts/{host.name}/sshd_config 2>{HERE}/hosts/{host.name}/sshd.log &",
        "echo up",
        "exec >/dev/null 2>&1 </dev/null",
        # the first process of a namespace also reaps what others have left
        "while :; do wait; sleep 1; done",
    ]
    return "\n".join(lines) + "\n"


def boot(host: HostSpec, directory: Path, groups: Groups) -> tuple[subprocess.Popen[bytes], int]:
    """Start a host without a link; its outer process, and the first one inside as the machine sees it."""
    own = directory / "hosts" / host.name
    (own / "init").write_text(boot_script(host, directory, groups))
    log = own / "boot.log"
    unshare = "unshare --net --uts --ipc --cgroup --pid --mount --propagation private --fork --kill-child --mount-proc"
    with log.open("w") as said:
        process = subprocess.Popen(
            ["sh", "-c", f"{groups.entering(host.name)} exec {unshare} sh {own}/init"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
            cwd="/",
        )
    assert process.stdout is not None
    with process.stdout as answer:
        if answer.readline() != b"up\n":
            process.wait()
            raise TestbedError(f"host {host.name} did not start: {log.read_text().strip()}")
    inside = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    _wait_for_sshd(own / "sshd.log", host.name)
    return process, inside


def prepare(host: HostSpec, hosts: tuple[HostSpec, ...], directory: Path) -> None:
    """Write the files a host needs before it starts."""
    own = directory / "hosts" / host.name
    own.mkdir(parents=True, exist_ok=True)
    (own / "sshd_config").write_text(sshd_config(host))
    (own / "etc_hosts").write_text(hosts_file(hosts, host))
    # nobody is asked for names: one that is not in /etc/hosts is unknown at once
    (own / "resolv.conf").write_text("")
    (own / "sshd.log").unlink(missing_ok=True)


def make_keys(hosts: tuple[HostSpec, ...], directory: Path) -> None:
    """The testbed's key, a key of each host, and what clients know of them."""
    keys = directory / "ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    for name in ["id", *(f"host_{host.name}" for host in hosts)]:
        if not (keys / name).exists():
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(keys / name)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    known = [
        f"{host.name},{host.address} {(keys / f'host_{host.name}.pub').read_text()}"
        for host in hosts
        if host.known
    ]
    (keys / "known_hosts").write_text("".join(known))
    (keys / "config").write_text(ssh_config())


def entering(pid: int, groups: Groups, host: str, command: list[str]) -> list[str]:
    """The command inside a host: in all its namespaces and under its limits, in the caller's directory."""
    nsenter = ["nsenter", "-t", str(pid), "-n", "-u", "-i", "-p", "-m", "-C", "-r", f"--wdns={os.getcwd()}"]
    return ["sh", "-c", f'{groups.entering(host)} exec "$@"', "sh", *nsenter, "--", *command]


def _wait_for_sshd(log: Path, name: str) -> None:
    deadline = time.monotonic() + BOOT_S
    while "Server listening" not in (text := log.read_text() if log.exists() else ""):
        if time.monotonic() > deadline:
            raise TestbedError(f"sshd of {name} does not listen: {text.strip()}")
        time.sleep(0.01)
