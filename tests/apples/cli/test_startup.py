"""`--help` is answered at once: what is heavy is imported when it is needed."""

import subprocess
import sys

import pytest

HEAVY = {
    "numpy",
    "numba",
    "pulp",
    "networkx",
    "requests",
    "pydantic",
    "yaml",
    "rich",
    "sqlite3",
    "psutil",
    "mpi4py",
}


def loaded_after(code):
    """Modules of ours and of `HEAVY` that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "code",
    [
        "import apples.cli.run",
        "import apples.cli.toolbox",
        "from apples.cli.run import run\ntry: run(['--help'])\nexcept SystemExit: pass",
        "from apples.cli.toolbox import toolbox\ntry: toolbox(['--help'])\nexcept SystemExit: pass",
        "from apples.cli.toolbox import toolbox\ntry: toolbox(['history', '--help'])\nexcept SystemExit: pass",
        "from apples.cli.toolbox import toolbox\ntry: toolbox(['calibrate', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_help_loads_nothing_heavy(code):
    loaded = loaded_after(code)
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_call_without_simulation_does_not_load_it():
    code = (
        "from click.testing import CliRunner\nfrom apples.cli.run import run\n"
        "CliRunner().invoke(run, ['64', '--app', 'none'])"
    )
    loaded = loaded_after(code)
    assert "apples.run.agent" in loaded
    assert not {"apples.simulation", "numba", "matplotlib"} & loaded
