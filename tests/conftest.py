"""Rules for all tests: costs and markers, an own state directory, kernels compiled before the session.

`pytest` without arguments runs the quick tests. `pytest --all`, or naming paths, `-k` or `-m`, runs the slow ones too.
Those marked `nightly` run with `-m nightly` alone.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Test functions whose measured time makes them slow; `scripts/slow_tests.py` writes the file.
SLOW_FILE = Path(__file__).with_name("slow.txt")

#: Fixtures that start something -> marker of the tests that use them.
MARKERS_OF_FIXTURES = {
    "playwright": "browser",
    "chromium": "browser",
    "lab": "root",
    "cluster": "slurm",
    "launch": "mpi",
    "runs": "mpi",
    "mpi": "mpi",
    "stencil_app": "mpi",
    "bare_machine": "mpi",
}


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", dest="all_tests", help="run the slow tests, too")
    parser.addoption("--costs", metavar="FILE", help="append each test's seconds to FILE")


def pytest_configure(config):
    """Choose between quick and all tests, and let interrupts reach the programs that tests start."""
    # A shell that starts pytest in the background may ignore SIGINT, and nohup SIGHUP; each program of a test would
    # inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Tests start hundreds of interpreters; without bytecode on disk each would compile the packages again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    option = config.option
    if hasattr(config, "workerinput"):
        option.all_tests = config.workerinput["all_tests"]
        return
    whole_suite = config.args_source is not pytest.Config.ArgsSource.ARGS
    if not whole_suite or option.keyword or option.markexpr:
        option.all_tests = True
    if whole_suite and not option.collectonly:
        compile_kernels()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Hand the choice to the workers of xdist, which read the command line themselves."""
    node.workerinput["all_tests"] = node.config.option.all_tests


def compile_kernels():
    """Fill numba's caches once, before several workers would each compile the same kernels."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / "warm_kernels.py"], check=False)
    if done.returncode:
        raise pytest.UsageError("a kernel does not compile; see above")


def pytest_collection_modifyitems(config, items):
    slow = set(SLOW_FILE.read_text(encoding="utf-8").split()) if SLOW_FILE.exists() else set()
    if "nightly" not in config.option.markexpr:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    quick, left_out = [], []
    for item in items:
        for marker in {
            MARKERS_OF_FIXTURES[name] for name in item.fixturenames if name in MARKERS_OF_FIXTURES
        }:
            item.add_marker(marker)
        if function_of(item.nodeid) in slow:
            item.add_marker("slow")
        (left_out if item.get_closest_marker("slow") else quick).append(item)
    if not config.option.all_tests and left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = quick


def function_of(nodeid):
    """Return the path and function of a test, without its parameters and the class."""
    path, _, name = nodeid.partition("[")[0].partition("::")
    return f"{path}::{name.rpartition('::')[2]}"


class Costs:
    """Writes the seconds of each phase of each test to a file."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{report.duration:.3f}\t{report.when}\t{report.nodeid}\n")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if session.config.option.costs and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Costs(Path(session.config.option.costs).absolute()))


@pytest.fixture(autouse=True)
def same_umask():
    """Fail the test that changes the mask of file modes of all tests after it in this process."""
    before = umask()
    yield
    assert umask() == before


def umask():
    """Return the mask in octal digits without changing it, as other threads create files."""
    return re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)[
        1
    ]


@pytest.fixture(autouse=True)
def state_of_its_own(tmp_path, monkeypatch):
    """An empty state directory (weather, benchmarks, history) for each test and the processes it starts.

    No service of the user is asked either.
    """
    for name in ("APPLES_NWS", "NWS_SERVER", "NWS_TOKEN_FILE", "NWS_CA"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "apples-state"
    monkeypatch.setenv("APPLES_STATE", str(state))
    # On a busy machine, each run would compile the monitor for its empty state.
    monkeypatch.setenv("APPLES_POLICY", "none")
    return state
