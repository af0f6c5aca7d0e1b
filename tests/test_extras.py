"""The base installation: what it runs without the packages of extras, and what it says about a missing one."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nws.base.command import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
#: Makes packages look as if they were not installed.
WITHOUT = """
import importlib.machinery, sys
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names} else super().find_spec(name, path, target)
sys.meta_path[:] = [Finder if one is importlib.machinery.PathFinder else one for one in sys.meta_path]
"""
IMPORT_ALL = """
import importlib, pkgutil, apples, nws
for root in apples, nws:
    for module in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        if not module.name.startswith("nws.server") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
"""
MAIN = "sys.argv = {words}\nfrom {module} import main\nmain()"


def run(code, names=tuple(EXTRAS), **options):
    script = WITHOUT.format(names=set(names)) + code
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, **options)


def main_of(module, *words):
    return MAIN.format(words=list(words), module=module)


def test_extras_name_packages_of_pyproject():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = about["optional-dependencies"]
    assert all(any(one.startswith(package) for one in extras[extra]) for package, extra in EXTRAS.items())
    assert extras["all"] == ["apples-grid[app,server,plot,hdf5]"]


def test_base_modules_import_without_extras():
    done = run(IMPORT_ALL)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "words", "package", "extra"),
    [
        ("stencil_app.cli", ("stencil-app", "heat", "--size", "4"), "mpi4py", "app"),
        ("nws.cli", ("nws", "server", "--detach"), "uvicorn", "server"),
        ("stencil_app.cli", ("stencil-app", "mhd", "blast", "--out", "a.png"), "matplotlib", "plot"),
    ],
)
def test_command_without_its_extra_names_it(module, words, package, extra):
    done = run(main_of(module, *words), [package])
    assert done.returncode == 2
    assert f"needs {package}, which is not installed; run: pip install 'apples-grid[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_queue_without_numba_starts_the_same_jobs(tmp_path):
    log = ["; MaxProcs: 4"]
    for job in range(1, 40):
        procs, seconds = 1 + job * 7 % 4, 30 + job * 37 % 100
        log.append(f"{job} {job * 9} 0 {seconds} {procs} -1 -1 {procs} {2 * seconds} -1 1 1 1 -1 -1 -1 -1 -1")
    (tmp_path / "log.swf").write_text("\n".join([*log, ""]))
    starts = {}
    for names in ((), ("numba",)):
        words = ("apples", "simulate-queue", "log.swf", "--starts", "starts.csv")
        assert run(main_of("apples.cli.toolbox", *words), names, cwd=tmp_path).returncode == 0
        starts[names] = (tmp_path / "starts.csv").read_text()
    assert starts[()] == starts["numba",]


@pytest.mark.mpi
@pytest.mark.parametrize("words", [("heat", "--size", "4"), ("mhd", "blast", "--n", "5")])
def test_kernels_without_numba_give_the_same_bits(words):
    code = main_of("stencil_app.cli", "stencil-app", *words, "--iterations", "2")
    compiled, interpreted = run(code, ()), run(code, ("numba", "llvmlite"))
    assert compiled.returncode == interpreted.returncode == 0, interpreted.stderr
    assert compiled.stdout == interpreted.stdout
