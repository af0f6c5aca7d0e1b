"""The wheel, built from this repository and installed alone into an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Fixtures: the MPI libraries of this machine, and programs compiled for them.
from tests.apples.monitoring.conftest import compiled, mpi  # noqa: F401

DISTRIBUTION = Path(__file__).resolve().parents[2] / "mpi_wait"


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def built_wheel(directory):
    """Build the wheel with the C compiler of this machine."""
    build = [*PIP, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, DISTRIBUTION]
    environment = {**os.environ, "MPI_WAIT_CC": "cc"}
    done = subprocess.run(build, env=environment, capture_output=True, text=True, check=False)
    if "No such file or directory: 'cc'" in done.stderr:
        pytest.skip("no C compiler on this machine (Debian: gcc libc6-dev)")
    assert done.returncode == 0, done.stderr
    return next(directory.glob("*.whl"))


@pytest.fixture(scope="session")
def mpi_wait(tmp_path_factory):
    """Return the path of the installed command, from the wheel in $MPI_WAIT_WHEEL if it is set."""
    directory = tmp_path_factory.mktemp("wheel")
    wheel = os.environ.get("MPI_WAIT_WHEEL") or built_wheel(directory)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "bare"], check=True)
    command = directory / "bare" / "bin" / "mpi-wait"
    python = command.with_name("python")
    subprocess.run([*PIP, "--python", python, "install", "-q", "--no-index", wheel], check=True)
    return command
