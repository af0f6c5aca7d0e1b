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
HELP = "try: {}\nexcept SystemExit: pass"
#: What the sensor measures and delivers with.
SENSOR = "import nws.sensors.cpu, nws.sensors.freememory, nws.sensors.network, requests, msgspec"


def loaded_after(code, printed=""):
    """Modules that a fresh interpreter has loaded after `code`, which prints a text."""
    script = f"import sys\n{code}\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert printed in done.stdout
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    ("code", "light", "more", "printed"),
    [
        ("import apples.cli.run", set(), set(), ""),
        ("import apples.cli.toolbox", set(), set(), ""),
        ("from apples.cli.run import run\n" + HELP.format("run(['--help'])"), set(), set(), ""),
        *(
            (f"from apples.cli.toolbox import toolbox\n{HELP.format(f'toolbox({words})')}", set(), set(), "")
            for words in (["--help"], ["history", "--help"], ["calibrate", "--help"])
        ),
        ("from nws.cli import main\n" + HELP.format("main(['--help'])"), set(), {"apscheduler"}, ""),
        ("import nws.base.command, nws.base.errors", set(), set(), ""),
        (
            f"{SENSOR}\nimport nws.cli.sensor, nws.daemon.daemon, apscheduler.schedulers.background",
            {"requests", "psutil", "yaml", "sqlite3", "rich"},
            {"starlette", "uvicorn", "nws.memory", "nws.service"},
            "",
        ),
        *(
            (
                f"sys.argv = ['stencil-app', '{physics}', '--help']\nfrom stencil_app.cli import main\nmain()",
                set(),
                {"h5py"},
                printed,
            )
            for physics, printed in (("heat", "--slabs R0,R1,..."), ("mhd", "Vortex of Orszag and Tang"))
        ),
    ],
)
def test_program_starts_without_what_is_heavy(code, light, more, printed):
    assert loaded_after(code, printed) & ((HEAVY | more) - light) == set()


def test_call_without_simulation_does_not_load_it():
    code = (
        "from click.testing import CliRunner\nfrom apples.cli.run import run\n"
        "CliRunner().invoke(run, ['64', '--app', 'none'])"
    )
    loaded = loaded_after(code)
    assert "apples.run.agent" in loaded
    assert not {"apples.simulation", "numba", "matplotlib"} & loaded
