"""The page: the same layout in C and in Python, read whole, up to now, and never fatal to its reader."""

import os
import re
import struct
import subprocess
import time
from contextlib import suppress

import pytest

from apples.coscheduling.classes import MonitorCounts
from apples.coscheduling.events import Wait
from apples.errors import MonitorError
from apples.monitoring import build, pagelayout
from apples.monitoring.counters import MonitorState
from apples.monitoring.page import MonitorPage, Phase
from apples.monitoring.pagelayout import WAY_COSTS

GONE = 2**22 - 7
#: Fields of this very process while it runs.
ME = {"pid": os.getpid(), "tid": os.getpid(), "state": MonitorState.RUNNING}


def raw_page(**fields):
    """Bytes of a page with these fields; the others are 0."""
    values = {"magic": pagelayout.MAGIC, "version": pagelayout.VERSION, **fields}
    layout = struct.Struct("=" + "".join(code for _, code in pagelayout.PROCESS_FIELDS))
    empty = {"s": b""}
    first = layout.pack(
        *(values.get(name, empty.get(code[-1], 0)) for name, code in pagelayout.PROCESS_FIELDS)
    )
    return first.ljust(pagelayout.PAGE_BYTES, b"\0")


@pytest.fixture
def written(tmp_path):
    """Writes a page and opens it."""
    opened = []

    def write(**fields):
        path = tmp_path / "job.0"
        path.write_bytes(raw_page(**fields))
        opened.append(MonitorPage.attach(path))
        return opened[-1]

    yield write
    for one in opened:
        one.close()


def test_c_and_python_agree_on_the_layout(tmp_path):
    names = [("process_half", name) for name, _ in pagelayout.PROCESS_FIELDS]
    names += [("manager_half", name) for name, _ in pagelayout.MANAGER_FIELDS]
    prints = "".join(
        f'printf("%zu %zu\\n", offsetof(struct {half}, {name}), sizeof(((struct {half} *)0)->{name}));\n'
        for half, name in names
    )
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include "{build.SOURCES / "page.h"}"\nint main(void) {{\n{prints}'
        'printf("%llx %d %d %d\\n", PAGE_MAGIC, PAGE_VERSION, PAGE_BYTES, PAGE_MANAGED);\n}\n'
    )
    try:
        compiler = build.compiler()
    except MonitorError as error:
        pytest.skip(str(error))
    subprocess.run([*compiler, "-o", tmp_path / "layout", source], check=True, capture_output=True)
    said = subprocess.run(
        [tmp_path / "layout"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    ours, at = [], 0
    for fields in (pagelayout.PROCESS_FIELDS, pagelayout.MANAGER_FIELDS):
        at = 0
        for _, code in fields:
            size = struct.calcsize("=" + code)
            assert at % min(size, 8) == 0
            ours.append(f"{at} {size}")
            at += size
    assert said[:-1] == ours
    assert (
        said[-1] == f"{pagelayout.MAGIC:x} {pagelayout.VERSION} {pagelayout.PAGE_BYTES} {pagelayout.MANAGED}"
    )


def test_modes_of_c_are_those_of_python():
    header = (build.SOURCES / "page.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", header)}
    assert {name: state.value for name, state in MonitorState.__members__.items()} == {
        name.removeprefix("STATE_"): value for name, value in numbers.items() if name.startswith("STATE_")
    }
    assert {name: phase.value for name, phase in Phase.__members__.items()} == {
        name.removeprefix("PHASE_"): value for name, value in numbers.items() if name.startswith("PHASE_")
    }
    assert [numbers["WAIT_AS_MPI"], numbers["WAIT_POLL"], numbers["WAIT_SPIN_BLOCK"]] == [0, 1, 2]


def test_figures_of_a_process_that_has_ended(written):
    instants = {"started_ns": 2 * 10**9, "ended_ns": 5 * 10**9, "last_request_ns": 4 * 10**9}
    times = {"t_cpu_ns": 15 * 10**8, "t_comm_ns": 5 * 10**8}
    counts = {"rank": 3, "ranks": 4, "threads": 1, "c_comm": 1000, "calls": 3000, "requests": 2}
    ended = {"pid": GONE, "tid": GONE, "state": MonitorState.FINALIZED, "mpi": b"MPICH 4", "host": b"alpha"}
    waits = {"best_way": 4, "way_permille": WAY_COSTS.pack(1500, 0, 0, 1000)}
    one = written(**instants, **times, **counts, **ended, **waits)
    assert (one.pid, one.rank, one.ranks, one.started_s) == (GONE, 3, 4, 2.0)
    assert one.state is MonitorState.FINALIZED
    assert one.reading() == MonitorCounts(1.5, 0.5, 1000)
    assert one.reading().granularity_s == pytest.approx(2e-3)
    assert one.requests() == 2
    figures = one.figures()
    assert (figures.elapsed_s, figures.mpi, figures.host) == (3.0, "MPICH 4", "alpha")
    assert (figures.last_request_s, figures.ended_s) == (4.0, 5.0)
    assert (figures.best_wait, figures.wait_costs) == ("block", {"mpi": 1.5, "block": 1.0})


def test_what_a_running_process_computes_is_added(written):
    """This very process stands for it: it has computed since its phase began."""
    with open(f"/proc/self/task/{os.getpid()}/schedstat") as schedule:
        used_ns = int(schedule.read().split()[0])
    one = written(**ME, phase=Phase.COMPUTING, phase_cpu_ns=0, t_cpu_ns=10**9)
    assert round(one.reading().t_cpu_s * 1e9) >= 10**9 + used_ns


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("state", MonitorState)
@pytest.mark.parametrize("held", [None, 0.25])
def test_times_for_heartbeats_are_those_of_all_figures(written, phase, state, held):
    now_ns = time.monotonic_ns()
    instants = dict.fromkeys(("updated_ns", "phase_wall_ns"), now_ns - 10**9) | {
        "started_ns": now_ns - 9 * 10**9
    }
    ended_ns = now_ns if state is MonitorState.FINALIZED else 0
    times = {"phase_stopped_ns": 5 * 10**8, "t_cpu_ns": 3 * 10**9, "t_comm_ns": 10**9}
    off = {"off_ns": 2 * 10**8, "queued_ns": 10**8}
    process = ME | {"state": state, "phase": phase, "threads": 2, "c_comm": 7}
    one = written(**process, **instants, **times, **off, ended_ns=ended_ns)
    one.add_stopped(0.75)
    held_since_s = None if held is None else now_ns * 1e-9 - held
    times, figures = one.times(held_since_s), one.figures(held_since_s)
    assert times.reading == pytest.approx(figures.reading, abs=0.5)
    assert times.ran_s == pytest.approx(figures.ran_s, abs=0.5)
    assert (times.off_s, times.queued_s) == pytest.approx((figures.off_s, figures.queued_s), abs=0.5)
    assert times.threads == 2
    if state is not MonitorState.RUNNING:
        assert times.reading == figures.reading


def test_times_follow_the_thread_that_the_page_names(written):
    me = {"tid": os.getpid(), "state": MonitorState.RUNNING, "phase": Phase.COMPUTING}
    one = written(pid=os.getpid(), **me)
    open_before = len(os.listdir("/proc/self/fd"))
    assert one.times().reading.t_cpu_s > 0
    one.path.write_bytes(raw_page(pid=GONE, **me))
    assert one.times().reading.t_cpu_s == 0
    one.path.write_bytes(raw_page(pid=os.getpid(), **me))
    assert one.times().reading.t_cpu_s > 0
    assert len(os.listdir("/proc/self/fd")) == open_before + 1


def test_what_a_running_process_waits_is_added_without_time_held_stopped(written):
    began_ns = time.monotonic_ns() - 10 * 10**9
    one = written(**ME, phase=Phase.WAITING, phase_wall_ns=began_ns, phase_stopped_ns=0, t_comm_ns=10**9)
    assert 11.0 <= one.reading().t_comm_s < 1000.0
    one.add_stopped(10.0)
    assert 1.0 <= one.reading().t_comm_s < 1000.0
    one.add_stopped(10**6)
    assert one.reading().t_comm_s == 1.0


def test_process_waits_until_it_is_held_and_no_longer(written):
    """Not only once it is resumed: who looks meanwhile sees no waiting that vanishes again."""
    now_s = time.monotonic()
    one = written(
        **ME,
        phase=Phase.WAITING,
        phase_wall_ns=round((now_s - 10) * 1e9),
        phase_stopped_ns=0,
        t_comm_ns=10**9,
    )
    assert one.reading(held_since_s=now_s - 7).t_comm_s == pytest.approx(4.0, abs=1e-6)
    one.add_stopped(2.0)
    assert one.reading(held_since_s=now_s - 7).t_comm_s == pytest.approx(2.0, abs=1e-6)
    # The hold is older than the wait: it was stopped on its way into it.
    assert one.reading(held_since_s=now_s - 11).t_comm_s == 1.0
    assert one.reading(held_since_s=now_s + 1000).t_comm_s < 1000.0


def test_how_long_a_process_could_run(written):
    now_s = time.monotonic()
    started = {"started_ns": round((now_s - 20) * 1e9), "threads": 1}
    one = written(**ME, **started)
    one.add_stopped(3.0)
    assert one.figures(held_since_s=now_s - 7).ran_s == pytest.approx(10.0, abs=1e-6)
    # After MPI_Finalize the page says itself how long it was held until then.
    ended = {"ended_ns": round((now_s - 10) * 1e9), "phase_stopped_ns": 4 * 10**9}
    two = written(pid=GONE, tid=GONE, state=MonitorState.FINALIZED, **started, **ended)
    two.add_stopped(9.0)
    assert two.figures(held_since_s=now_s - 1).ran_s == pytest.approx(6.0, abs=1e-6)


def test_nothing_is_added_for_a_process_that_is_gone(written):
    one = written(pid=GONE, tid=GONE, state=MonitorState.RUNNING, phase=Phase.WAITING, t_comm_ns=10**9)
    assert one.reading() == MonitorCounts(0.0, 1.0, 0)


def test_process_that_was_stopped_while_it_wrote_is_read_as_it_is(written):
    one = written(**ME, phase=Phase.WAITING, sequence=7)
    assert one.reading() == MonitorCounts(0.0, 0.0, 0)


def test_node_manager_writes_its_half_only(written):
    one = written(t_cpu_ns=1)
    before = one.path.read_bytes()
    one.set_wait(Wait.SPIN_BLOCK, spin_s=250e-6)
    one.set_scheduled(True)
    one.add_stopped(1.5)
    one.add_stopped(0.25)
    after = one.path.read_bytes()
    assert after[: pagelayout.MANAGED] == before[: pagelayout.MANAGED]
    layout = struct.Struct("=" + "".join(code for _, code in pagelayout.MANAGER_FIELDS))
    assert layout.unpack_from(after, pagelayout.MANAGED) == (2, 1, 250_000, 1_750_000_000)
    one.set_wait(Wait.POLL)
    one.set_scheduled(False)
    assert layout.unpack_from(one.path.read_bytes(), pagelayout.MANAGED)[:2] == (1, 0)
    one.set_wait(None)
    assert layout.unpack_from(one.path.read_bytes(), pagelayout.MANAGED)[0] == 0


def test_page_cut_short_under_its_reader_is_an_error_and_no_crash(written):
    one = written()
    os.truncate(one.path, 100)
    with pytest.raises(MonitorError, match="expected 4096 bytes, it ends before"):
        one.reading()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "cannot be opened: No such file"),
        (lambda path: path.mkdir(), "expected a regular file"),
        (lambda path: path.symlink_to("/etc/passwd"), "expected a regular file"),
        (lambda path: os.mkfifo(path), "expected a regular file"),
        (lambda path: path.write_bytes(b"short"), "expected 4096 bytes"),
        (lambda path: path.write_bytes(b"x" * 4096), "legal is version 3"),
        (lambda path: path.write_bytes(raw_page(version=9)), "version 9"),
        (lambda path: path.write_bytes(raw_page(state=7)), r"state 7\); legal are 0 to 2"),
    ],
)
def test_what_is_no_page_is_named(tmp_path, make, message):
    path = tmp_path / "job.0"
    make(path)
    with pytest.raises(MonitorError, match=message) as raised:
        MonitorPage.attach(path)
    assert str(path) in str(raised.value)
    assert raised.value.exit_code == 5


def test_page_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "job.0"
    path.write_bytes(raw_page())
    with pytest.raises(MonitorError, match=f"expected a regular file of user {os.getuid() + 1}"):
        MonitorPage.attach(path, owner=os.getuid() + 1)
    MonitorPage.attach(path, owner=os.getuid()).close()


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "", "job.0/more"])
def test_name_that_no_file_can_have_is_named(tmp_path, name):
    with pytest.raises(MonitorError, match=r"cannot be opened: .*; name the file|expected a regular file"):
        MonitorPage.attach(f"{tmp_path}/{name}")


def test_devices_are_not_even_opened(monkeypatch):
    """Opening a terminal, a tape or a watchdog does something, and who registers only says a name."""
    for_use, really = [], os.open
    monkeypatch.setattr(os, "open", lambda *a: (a[1] & os.O_PATH or for_use.append(a[0])) and really(*a))
    with pytest.raises(MonitorError, match="/dev/null: not a page of the monitor: expected a regular file"):
        MonitorPage.attach("/dev/null")
    assert for_use == []


def test_file_that_was_looked_at_is_the_one_that_is_opened(tmp_path, monkeypatch):
    """Somebody puts another file under the name at just that moment."""
    path, other = tmp_path / "job.0", tmp_path / "other"
    path.write_bytes(raw_page(rank=1))
    other.write_bytes(raw_page(rank=2))
    looks = os.fstat

    def look_and_change(fd):
        about = looks(fd)
        if other.exists():
            other.replace(path)
        return about

    monkeypatch.setattr(os, "fstat", look_and_change)
    with MonitorPage.attach(path) as one:
        assert one.rank == 1
    assert not other.exists()


@pytest.mark.parametrize("seconds", [1e-9, 1.0, 1e30, float("inf"), float("nan")])
def test_time_that_does_not_fit_into_a_spoilt_page_is_an_error(written, seconds):
    one = written(state=MonitorState.RUNNING)
    with one.path.open("r+b") as file:
        file.seek(pagelayout.MANAGED + 16)
        file.write(b"\xff" * 8)
    with pytest.raises(MonitorError, match=r"stopped_ns of the monitor's page would be \S+, more than fits"):
        one.add_stopped(seconds)


SPOILT = {
    "a state that there is not": {"state": 7},
    "the largest state": {"state": 2**32 - 1},
    "a phase that there is not": {"state": 1, "phase": 9},
    "every number as large as it can be": {
        name: 2 ** (8 * struct.calcsize("=" + code)) - 1
        for name, code in pagelayout.PROCESS_FIELDS
        if code in "IQ" and name not in ("magic", "version", "state")
    },
    "text that is none": {"mpi": b"\xff" * 64, "host": b"\xc3" * 64},
}


@pytest.mark.parametrize("fields", SPOILT.values(), ids=SPOILT)
def test_whatever_a_process_writes_its_reader_lives(written, fields):
    """Written after the page was opened, by a process that means ill or has lost its way."""
    one = written(state=MonitorState.RUNNING)
    one.path.write_bytes(raw_page(**fields)[: pagelayout.MANAGED] + b"\xff" * pagelayout.MANAGED)
    writes = (lambda: one.add_stopped(1.0), lambda: one.set_wait(Wait.POLL), lambda: one.set_scheduled(False))
    for use in (one.reading, one.requests, one.figures, lambda: one.state, *writes, one.close, one.reading):
        with suppress(MonitorError):
            use()
