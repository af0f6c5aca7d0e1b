"""The wheel, built from this repository and installed alone into an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Fixtures: the MPI libraries of this machine, and programs compiled for them.
from tests.apples.monitoring.conftest import compiled, mpi  # noqa: F401

DISTRIBUTION = Path(__file__).resolve().parents[2] / "mpi_wait"


@pytest.fixture(scope="session")
def mpi_wait(tmp_path_factory):
    """Return the path of the installed command."""
    directory = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [
        *pip,
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(directory),
        str(DISTRIBUTION),
    ]
    done = subprocess.run(
        build, env={**os.environ, "MPI_WAIT_CC": "cc"}, capture_output=True, text=True, check=False
    )
    if "No such file or directory: 'cc'" in done.stderr:
        pytest.skip("no C compiler on this machine (Debian: gcc libc6-dev)")
    assert done.returncode == 0, done.stderr
    bare = directory / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    (wheel,) = directory.glob("*.whl")
    python = bare / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "-q", "--no-index", str(wheel)], check=True)
    return bare / "bin" / "mpi-wait"
