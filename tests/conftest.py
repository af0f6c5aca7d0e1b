"""Rules for all tests: costs and markers, an own state directory, kernels compiled before the session.

`pytest` without arguments runs the quick tests. `pytest --all`, or naming paths, `-k` or `-m`, runs the slow ones too.
Those marked `nightly` run with `-m nightly` alone.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from tests import transcripts

ROOT = Path(__file__).resolve().parent.parent
#: Test functions whose measured time makes them slow; `scripts/slow_tests.py` writes the file.
SLOW_FILE = Path(__file__).with_name("slow.txt")

# Before its first input Hypothesis reads all modules for constants; on a busy machine that looks like a slow strategy.
hypothesis.settings.register_profile("busy", suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("busy")

#: Resource limits by name, without `OFILE`, another name of `NOFILE`.
LIMITS = {
    name: getattr(resource, name) for name in dir(resource) if re.fullmatch("RLIMIT_(?!OFILE)[A-Z]+", name)
}
#: Numbers of signals with a meaning; the real-time ones show in the masks of `STATUS_LINES` only.
HANDLED_SIGNALS = range(1, signal.SIGRTMIN - 2)
#: Lines of /proc/self/status: mask of file modes, and blocked, ignored and handled signals.
STATUS_LINES = re.compile(r"^(Umask|SigBlk|SigIgn|SigCgt):\s*(\w+)", re.MULTILINE)

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
    parser.addoption("--update-golden", action="store_true", help="write the files of tests/golden anew")


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
    use_full_vectors()
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


def use_full_vectors():
    """Compile all kernels for the CPU features that the stencils' module sets for its whole process.

    Else a worker that has imported a stencil finds none of the other kernels on disk and compiles them again.
    """
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        os.environ.setdefault("NUMBA_CPU_FEATURES", f"{features.flatten()},-prefer-256-bit")


def compile_kernels():
    """Fill numba's caches once, before several workers would each compile the same kernels."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / "warm_kernels.py"], check=False)
    if done.returncode:
        raise pytest.UsageError("a kernel does not compile; see above")


def leave_combinations_to_nightly(items):
    """Keep one combination or more for each value of the parameters that `covering` names; the others run nightly."""
    combinations = {}
    for item in items:
        marker = item.get_closest_marker("covering")
        if marker and not item.get_closest_marker("nightly"):
            combinations.setdefault((function_of(item.nodeid), marker.args), []).append(item)
    for (_, names), covering in combinations.items():
        numbers, counts = [0] * len(covering), []
        for name in names:
            values = [id(item.callspec.params[name]) for item in covering]
            distinct = list(dict.fromkeys(values))
            numbers = [n + distinct.index(value) for n, value in zip(numbers, values, strict=True)]
            counts.append(len(distinct))
        for item, number in zip(covering, numbers, strict=True):
            if number % sorted(counts)[-2]:
                item.add_marker("nightly")


def pytest_collection_modifyitems(config, items):
    leave_combinations_to_nightly(items)
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


def process_state():
    """Return what tests of this process and the programs they start inherit from each other."""
    # Read, not set and set back: other threads create files meanwhile.
    status = STATUS_LINES.findall(Path("/proc/self/status").read_text(encoding="ascii"))
    environment = dict(os.environ)
    # pytest's note of the running test and its phase.
    environment.pop("PYTEST_CURRENT_TEST", None)
    return {
        "scheduling class": (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": os.sched_getaffinity(0),
        "limits": {name: resource.getrlimit(number) for name, number in LIMITS.items()},
        # without 32 and 33, which glibc handles from the first thread of a process on
        **{name: f"{int(mask, 16) & ~(0b11 << 31):016x}" for name, mask in status},
        "signal handlers": {number: signal.getsignal(number) for number in HANDLED_SIGNALS},
        "environment": environment,
    }


def changes(before, after):
    """Return the differing entries of two process states, one line each."""
    lines = []
    for name, value in before.items():
        old, new = value, after[name]
        if isinstance(old, dict):
            both = [key for key in {**old, **new} if old.get(key) != new.get(key)]
            old, new = ({key: state.get(key) for key in both} for state in (old, new))
        if old != new:
            lines.append(f"{name}: {old} before, {new} after")
    return lines


def unchanged_process():
    """Fail the test, or the last test of a module, after which other tests would run in a changed process."""
    before = process_state()
    yield
    lines = changes(before, process_state())
    if lines:
        pytest.fail("left for the tests after it: " + "; ".join(lines), pytrace=False)


# The module's comes before and ends after its shared fixtures, a test's before and after all of the test.
process_after_module = pytest.fixture(unchanged_process, autouse=True, scope="module")
process_after_test = pytest.fixture(unchanged_process, autouse=True)


@pytest.fixture
def golden(request):
    """Compares a text with a whole file of `tests/golden`; with --update-golden, writes the file."""

    def check(name, text):
        file = transcripts.GOLDEN / name
        if request.config.option.update_golden:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"{file} differs; see --update-golden"

    return check


@pytest.fixture
def answered(request):
    """Compares an answer with that of the row of `transcripts.recorded`; with --update-golden, writes it there.

    Texts are recorded as they are, several lines from a list, anything else as Python writes it.
    """
    name, number = request.param

    def check(answer):
        lines = answer if isinstance(answer, (list, tuple)) else [answer]
        text = "\n".join(line if isinstance(line, str) else repr(line) for line in lines).rstrip("\n")
        recorded = transcripts.rows_of(name)[number][1]
        if request.config.option.update_golden and not transcripts.agrees(text, recorded):
            transcripts.record(name, number, text)
        elif not transcripts.agrees(text, recorded):
            assert text == recorded, f"tests/golden/{name}"

    return check


#: Signals for which the `main` of a program sets handlers.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture
def program_signals():
    """Restore the handlers that the `main` of a program, called in this process, sets for its process."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def state_of_its_own(process_after_test, tmp_path, monkeypatch):
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
