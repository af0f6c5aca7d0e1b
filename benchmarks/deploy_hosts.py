"""How long one command takes to put a weather service on hosts: package, tokens, TLS, server and sensors.

    sudo python benchmarks/deploy_hosts.py [--hosts 30] [--prefix shared|own] [--installed] [--uv DIR]

The hosts are those of `tests/testbed`, reached over ssh and without a network beyond it, so that dependencies come from
a directory that is filled first and isn't timed. With `--prefix shared` the hosts have one directory, as on a shared
file system, and one of them installs; with `own` each installs into its own. Afterwards the command runs again, and
must change nothing, with `--check` and without; then one file is changed, and the check must say so.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nws.deploy.wheel import this_package  # noqa: E402
from tests.testbed.description import parse  # noqa: E402
from tests.testbed.grid import Testbed  # noqa: E402

BIN = Path(sys.executable).parent


def main() -> None:
    """Print the seconds of each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=30)
    parser.add_argument("--prefix", choices=["shared", "own"], default="shared")
    parser.add_argument("--installed", action="store_true", help="use this environment instead of installing")
    parser.add_argument(
        "--wheelhouse", type=Path, help="directory with the dependencies; downloaded by default"
    )
    parser.add_argument(
        "--uv", type=Path, help="directory with uv, for the PATH of the hosts; without it they use pip"
    )
    given = parser.parse_args()
    names = [f"node{number:02}" for number in range(1, given.hosts + 1)]
    hosts = [{"name": name} for name in ("head", *names)]
    with tempfile.TemporaryDirectory(prefix="deploy-hosts-", dir="/var/tmp") as directory:
        wheels = given.wheelhouse or Path(directory) / "wheels"
        if not given.installed and given.wheelhouse is None:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "-d", wheels, str(ROOT)], check=True
            )
        with Testbed(parse({"name": "deploy", "defaults": {"memory": "2G"}, "hosts": hosts})) as testbed:
            steps(testbed, Path(directory), wheels, given, f"node[01-{given.hosts:02}]")


def steps(testbed: Testbed, directory: Path, wheels: Path, given: argparse.Namespace, hosts: str) -> None:
    """Deploy, repeat, check, and remove."""
    prefix = directory / ("{host}" if given.prefix == "own" else "shared")
    command = ["nws", "deploy", "--server", "head", hosts, "--prefix", str(prefix), "--wait", "10m"]
    python = os.path.realpath(sys.executable)
    if given.uv is not None:
        wrapper = directory / "python"
        wrapper.write_text(f'#!/bin/sh\nPATH={given.uv}:$PATH exec {python} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        python = str(wrapper)
    command += ["--python", python]
    if given.installed:
        command += ["--installed", str(BIN.parent)]
    else:
        # once, as the checkout may change meanwhile
        name, content = this_package()
        (directory / name).write_bytes(content)
        command += ["--wheelhouse", str(wheels), "--wheel", str(directory / name)]

    def timed(title: str, code: int, *more: str, lines: int = 1) -> str:
        began = time.monotonic()
        done = subprocess.run(
            testbed.command(
                "head", ["env", f"APPLES_STATE={directory}/desk", str(BIN / command[0]), *command[1:], *more]
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        last = done.stderr.strip().splitlines()[-lines:]
        print(
            f"{title}: {time.monotonic() - began:.1f} s, exit code {done.returncode}: {' | '.join(last)}",
            flush=True,
        )
        if done.returncode != code:
            sys.exit(done.stderr)
        return done.stderr

    said = timed("deployed and measuring", 0)
    installed = re.findall(r"^· (\S+): package", said, re.MULTILINE)
    print(f"  on {len(installed)} hosts the package was installed or made current", flush=True)
    timed("again", 0)
    timed("check", 0, "--check")
    (settings,) = directory.glob("*/hosts/node01/settings/nws-sensor")
    (settings / "ca.pem").write_text("changed\n", encoding="utf-8")
    timed("check after a change", 1, "--check")
    timed("mended", 0)
    timed("removed", 0, "--remove")


if __name__ == "__main__":
    main()
