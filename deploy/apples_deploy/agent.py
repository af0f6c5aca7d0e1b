"""The program that is sent to a host: reports it, compares it with a plan, and applies the plan.

It answers the first frame with its report, and each order that follows; a step that takes long is a note. It needs the
standard library and the modules that are sent along. A plan is a `apples_deploy.records.HostPlan`.
Everything is written beside its place and renamed, so that a host never has half a file or half an installation.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import re
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

from apples.hosts.frames import CHUNK, PREAMBLE, FromAgent, Unframer, frame
from nws.base.files import put_in_place, untrusted, write_whole
from nws.base.lock import FileLock, LockHeld
from nws.base.program import ProgramFailed, output_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: Seconds for pip, for a daemon to start or to stop, and for a question to systemd.
INSTALL_S, START_S, ASK_S = 1800, 330, 30
#: File in an environment whose installation is complete.
COMPLETE = ".complete"


class StepFailed(Exception):
    """A step could not be taken. The text is a sentence without its subject."""


def must(command: list[str], within_s: float, **variables: str) -> str:
    """Run a program and return its stdout; raise `StepFailed` with its last lines."""
    try:
        return output_of(command, limit_s=within_s, environment={**os.environ, **variables})
    except ProgramFailed as failure:
        last = " | ".join(failure.stderr.splitlines()[-4:])
        raise StepFailed(f"{' '.join(command[:3])}: {failure.reason}: {last}") from None


def succeeds(command: list[str]) -> bool:
    """Run a program and return whether it succeeds."""
    try:
        output_of(command, limit_s=ASK_S)
    except ProgramFailed:
        return False
    return True


def report() -> dict[str, Any]:
    """Return the facts on which plans depend."""
    return {
        "root": os.geteuid() == 0,
        "home": home(),
        "python": list(sys.version_info[:2]),
        "systemd": systemd_scope(),
    }


def home() -> str:
    """Return this user's home directory. A user of a container may have no entry in passwd."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return os.environ.get("HOME", "/")


def systemd_scope() -> str | None:
    """Return `system` for root, `user` for others with a systemd of their own, None without systemd."""
    if not os.path.isdir("/run/systemd/system") or shutil.which("systemctl") is None:
        return None
    if os.geteuid() == 0:
        return "system"
    os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    return "user" if succeeds(["systemctl", "--user", "show-environment"]) else None


class PlannedHost:
    """This host against a plan. say : receives each step"""

    def __init__(self, plan: dict[str, Any], say: Any = lambda text: None) -> None:
        self.plan, self.layout, self.say = plan, plan["layout"], say

    def refuse_shared(self) -> None:
        """Raise `StepFailed` if others could replace programs that are started here, or secrets that are written."""
        for name in ("environments", "bin", "settings", "state"):
            if self.layout[name] is not None and (problem := untrusted(self.layout[name])):
                raise StepFailed(f"{self.layout[name]}: other users may replace it, as {problem}")

    def compare(self) -> list[str]:
        """Return the differences, each a sentence without its subject."""
        found = []
        if not self.installed():
            found.append(f"the package is not installed in {self.layout['bin']}")
        found += [why for why in map(different, self.plan["files"]) if why]
        return found + [why for why in map(self.service_differs, self.plan["services"]) if why]

    def installed(self) -> bool:
        """Return whether the package of the plan is the current one."""
        if self.plan["package"] is None:
            return os.access(f"{self.layout['bin']}/nws", os.X_OK)
        current = f"{self.layout['environments']}/current"
        return os.path.exists(f"{current}/{COMPLETE}") and os.readlink(current) == self.environment_name()

    def environment_name(self) -> str:
        """Return the directory name of the planned environment."""
        return f"env-{self.plan['package']['digest'][:16]}"

    def apply(self, wheel: str | None) -> list[str]:
        """Apply the plan; return the changed parts. wheel : content in base64"""
        self.refuse_shared()
        changed = []
        if not self.installed():
            if self.plan["package"] is None:
                raise StepFailed(
                    f"has no {self.layout['bin']}/nws; install the package there, or name the environment"
                )
            self.install(wheel)
            changed.append("package")
        for path in (self.layout["settings"], self.layout["state"]):
            os.makedirs(path, mode=0o700, exist_ok=True)
            os.chmod(path, 0o700)
        files = [file for file in self.plan["files"] if different(file)]
        for file in files:
            os.makedirs(os.path.dirname(file["path"]), exist_ok=True)
            replace(file["path"], file["text"], file["mode"])
        changed += [os.path.basename(file["path"]) for file in files]
        for service in self.plan["services"]:
            if self.service_differs(service):
                self.say(f"starting {service['name']}")
                self.start(service)
                changed.append(service["name"])
        return changed

    def install(self, wheel: str | None) -> None:
        """Install the package into an environment of its own, then make it the current one."""
        package, top = self.plan["package"], self.layout["environments"]
        name = self.environment_name()
        directory = os.path.join(top, name)
        os.makedirs(top, exist_ok=True)
        # of the hosts that share a prefix one installs
        with waited_for(Path(top) / ".lock"):
            if not os.path.exists(f"{directory}/{COMPLETE}"):
                self.say("installing the package")
                shutil.rmtree(directory, ignore_errors=True)
                with tempfile.TemporaryDirectory(prefix="apples-deploy-") as scratch:
                    what = os.path.join(scratch, package["wheel"])
                    with open(what, "wb") as file:
                        file.write(base64.b64decode(wheel or ""))
                    # daemons of all kinds, and the applications of this package
                    parts = f"{what}[app,server]"
                    make_environment(directory, [*package["arguments"], parts], package["variables"])
                replace(f"{directory}/{COMPLETE}", package["digest"], 0o644)
            temporary = f"{top}/.current.{os.getpid()}"
            os.symlink(name, temporary)
            put_in_place(temporary, f"{top}/current", sync=False)

    def service_differs(self, service: dict[str, Any]) -> str | None:
        """Return how a service differs, None if it runs with the planned settings."""
        if not self.running(service):
            return f"{service['name']} is not running"
        if read(service["record"]) != service["digest"]:
            return f"{service['name']} runs with other settings"
        return None

    def running(self, service: dict[str, Any]) -> bool:
        """Return whether a service runs."""
        if service["unit"] is not None:
            return succeeds([*systemctl(service), "is-active", "--quiet", service["name"]])
        node = re.sub(r"[@>,/\\\s]", "-", socket.gethostname().partition(".")[0]) or "localhost"
        path = Path(service["state"]) / f"{service['name']}.{node}.pid"
        try:
            if path.exists():
                FileLock(path, description="").release()
        except LockHeld:
            return True
        return False

    def start(self, service: dict[str, Any]) -> None:
        """Start a service, or start it anew."""
        if service["unit"] is not None:
            must([*systemctl(service), "daemon-reload"], ASK_S)
            must([*systemctl(service), "enable", "--quiet", service["name"]], ASK_S)
            if service["scope"] == "user":
                # otherwise it ends when the user logs out; where that is not allowed it lives as long as a session
                succeeds(["loginctl", "enable-linger"])
            must([*systemctl(service), "restart", service["name"]], START_S)
        else:
            self.stop(service)
            must([*service["command"], "--detach"], START_S, APPLES_STATE=service["state"])
        os.makedirs(os.path.dirname(service["record"]), exist_ok=True)
        replace(service["record"], service["digest"], 0o600)

    def stop(self, service: dict[str, Any]) -> None:
        """Stop a service that runs."""
        if not self.running(service):
            return
        if service["unit"] is not None:
            must([*systemctl(service), "stop", service["name"]], START_S)
        else:
            must([*service["command"], "--stop"], START_S, APPLES_STATE=service["state"])

    def remove(self) -> list[str]:
        """Stop services; remove settings, units and packages, not the daemons' state. Return the removed parts."""
        self.refuse_shared()
        removed = []
        for service in self.plan["services"]:
            if self.running(service):
                self.stop(service)
                removed.append(service["name"])
            if service["unit"] is not None and os.path.exists(service["unit"]):
                must([*systemctl(service), "disable", "--quiet", service["name"]], ASK_S)
                os.unlink(service["unit"])
                must([*systemctl(service), "daemon-reload"], ASK_S)
            settings = os.path.dirname(service["record"])
            if os.path.isdir(settings):
                shutil.rmtree(settings)
                removed.append("settings")
        # it has settings of daemons that stay
        with contextlib.suppress(OSError):
            os.rmdir(self.layout["settings"])
        top = self.layout["environments"]
        # other hosts, or other daemons of this one, may use the package
        if top is not None and os.path.isdir(top) and not self.in_use(top):
            for entry in os.listdir(top):
                path = os.path.join(top, entry)
                if os.path.islink(path) or entry == ".lock":
                    os.unlink(path)
                elif entry.startswith("env-"):
                    shutil.rmtree(path)
                    removed.append("package")
        return removed

    def in_use(self, top: str) -> bool:
        """Return whether a host still has settings below this prefix."""
        hosts = os.path.join(top, "hosts")
        return os.path.isdir(hosts) and any(
            os.path.isdir(f"{hosts}/{one}/settings") for one in os.listdir(hosts)
        )


def make_environment(directory: str, what: list[str], variables: dict[str, str]) -> None:
    """Make a virtual environment and install into it, by uv if the host has it, else by pip."""
    uv = shutil.which("uv")
    if uv is not None:
        must([uv, "venv", "-q", "--python", sys.executable, directory], INSTALL_S)
        must(
            [uv, "pip", "install", "-q", "--python", f"{directory}/bin/python", *what], INSTALL_S, **variables
        )
        return
    must([sys.executable, "-m", "venv", directory], INSTALL_S)
    must(
        [f"{directory}/bin/python", "-m", "pip", "install", "-q", "--no-input", "--no-compile", *what],
        INSTALL_S,
        **variables,
    )


def systemctl(service: dict[str, Any]) -> list[str]:
    """Return the start of a command line for the service's systemd."""
    return ["systemctl", "--no-ask-password", *(["--user"] if service["scope"] == "user" else [])]


def different(file: dict[str, Any]) -> str | None:
    """Return how a file differs from the plan, None if it does not."""
    path = file["path"]
    has = read(path)
    if has is None:
        return f"{path} is not there"
    if has != file["text"]:
        return f"{path} differs"
    mode = os.stat(path).st_mode & 0o7777
    return None if mode == file["mode"] else f"{path} has mode {mode:04o}, expected {file['mode']:04o}"


def read(path: str) -> str | None:
    """Return the content of a file, None if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def replace(path: str, text: str, mode: int) -> None:
    """Write a file with exactly this mode, beside its place, and rename it."""
    before = os.umask(0)
    try:
        write_whole(path, text, mode=mode, sync=True)
    finally:
        os.umask(before)


def waited_for(path: Path) -> FileLock:
    """Return the lock once no other host holds it; raise `StepFailed` after the time that an installation may take."""
    holder = ""
    for _ in range(INSTALL_S):
        try:
            return FileLock(path)
        except LockHeld as held:
            holder = held.holder
            time.sleep(1.0)
    raise StepFailed(f"waited {INSTALL_S} s for {path}, held by {holder}")


def orders() -> Iterator[bytes]:
    """Yield the payloads of frames from standard input until it ends."""
    unframer = Unframer()
    while data := os.read(0, CHUNK):
        for _, payload in unframer.feed(data):
            yield payload


def answers(payloads: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the report for the first frame, then the answer to each order."""
    next(payloads)
    yield report()
    for payload in payloads:
        order = json.loads(payload)
        try:
            if order["do"] == "run":
                yield {"output": must(order["command"], order["within_s"])}
                continue
            host = PlannedHost(order["plan"], say=lambda text: put(FromAgent.NOTE, text))
            if order["do"] == "compare":
                yield {"differences": host.compare(), "installed": host.installed()}
            elif order["do"] == "apply":
                yield {"changed": host.apply(order["wheel"])}
            else:
                yield {"changed": host.remove()}
        except StepFailed as error:
            yield {"error": str(error)}
        except OSError as error:
            yield {"error": f"{error.filename or ''}: {error.strerror}"}


def put(kind: bytes, text: str) -> None:
    """Write a frame."""
    sys.stdout.buffer.write(frame(kind, text.encode(errors="replace")))
    sys.stdout.buffer.flush()


def main(arguments: Sequence[str]) -> int:
    """Answer until the input ends."""
    os.umask(0o022)
    sys.stdout.buffer.write(PREAMBLE)
    for answer in answers(orders()):
        put(FromAgent.ANSWER, json.dumps(answer))
    return 0
