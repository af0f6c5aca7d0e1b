"""What the monitor tells the node manager of its host, and the status that travels with messages."""

import json
import socket
import sys
import threading
import time

import pytest

from apples.coscheduling.events import Wait
from apples.monitoring.counters import MonitorState
from apples.monitoring.page import MonitorPage
from tests.transcripts import text_of


class Manager:
    """A node manager that answers every registration with the same line, and remembers them.

    asked : what processes have said after that
    """

    def __init__(self, path, answer):
        self.registered, self.ended, self._answer = [], threading.Semaphore(0), answer
        self.asked = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        """Stop listening. A thread that still accepts would take the connections of the next socket of this number."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.listener.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with connection, connection.makefile("r") as lines:
            self.registered.append(json.loads(lines.readline()))
            if self._answer is not None:
                connection.sendall(self._answer)
            # The end of the connection is the end of the process.
            self.asked.extend(json.loads(line) for line in lines)
        self.ended.release()


@pytest.fixture
def manager(tmp_path):
    made = []

    def make(answer=b'{"registered": {}}\n'):
        made.append(Manager(tmp_path / "node.sock", answer))
        return made[-1], str(tmp_path / "node.sock")

    yield make
    for one in made:
        one.close()


def test_process_registers_and_stays_connected_while_it_lives(mpi, compiled, start, manager, pages_directory):
    node, path = manager()
    started = start(
        mpi, 2, [*compiled(mpi, "known.c"), "all", 20, 500], name="a-job", APPLES_NODE_SOCKET=path
    )
    started.end()
    for _ in range(2):
        assert node.ended.acquire(timeout=30)
    figures = started.job.figures()
    said = sorted((line["register"] for line in node.registered), key=lambda entry: entry["rank"])
    assert said == [
        {
            "job": "a-job",
            "rank": rank,
            "ranks": 2,
            "pid": figures[rank].pid,
            "page": str(pages_directory / f"a-job.{rank}"),
        }
        for rank in range(2)
    ]
    assert node.asked == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"refused": "no room"}\n', '{"refused": "no room"}; the program runs without it'),
        (b"", "no answer within 2 s; the program runs without it"),
    ],
)
def test_program_that_is_not_wanted_runs_by_itself(mpi, compiled, start, manager, answer, told):
    if mpi.name != "mpich-wheel":
        pytest.skip("the same code for every MPI")
    _, path = manager(answer or None)
    command = [*compiled(mpi, "known.c"), "all", 5, 100]
    _, errors = start(mpi, 1, command, APPLES_NODE_SOCKET=path).end()
    assert told in errors


@pytest.mark.parametrize(
    ("path", "told"),
    [("/nowhere/node.sock", "No such file or directory"), ("/" + "x" * 200, "at most 107 characters")],
)
def test_node_manager_that_is_not_there_is_said_once(mpi, compiled, start, path, told):
    if mpi.name != "mpich-wheel":
        pytest.skip("the same code for every MPI")
    command = [*compiled(mpi, "known.c"), "all", 5, 100]
    _, errors = start(mpi, 1, command, APPLES_NODE_SOCKET=path).end()
    assert errors.count(told) == 1


TALK = text_of("apples/monitoring/talk.txt")


@pytest.fixture
def talking(request, mpi, start, manager, tmp_path, pages_directory):
    """Two ranks that exchange messages until told to stop, and their pages."""
    way = getattr(request, "param", "plainly")
    node, path = manager()
    stop = tmp_path / "stop"
    script = tmp_path / "talk.py"
    script.write_text(TALK)
    started = start(mpi, 2, [sys.executable, script, stop, way], APPLES_NODE_SOCKET=path)
    started.page_figures(2, lambda figures: all(f.calls > 10 for f in figures))
    pages = [MonitorPage.attach(pages_directory / f"job.{rank}") for rank in range(2)]
    yield started, pages
    stop.touch()
    started.end()
    for page in pages:
        page.close()
    for _ in range(2):
        assert node.ended.acquire(timeout=30)
    # Whoever has a request asks at once, and no oftener than every few milliseconds.
    figures = started.job.figures()
    assert all(line == {"schedule": None} for line in node.asked)
    assert bool(node.asked) == any(f.requests for f in figures)
    assert len(node.asked) <= sum((f.ended_s - f.started_s) / 0.005 + 1 for f in figures)


FINISHES_EARLY = text_of("apples/monitoring/finishes_early.txt")


def test_rank_that_is_done_early_leaves_its_core_to_others(mpi, start, manager, tmp_path):
    """Its status may not be left behind, so in MPI_Finalize it waits for the others; but it does not poll."""
    _, path = manager()
    script = tmp_path / "early.py"
    script.write_text(FINISHES_EARLY)
    said, _ = start(mpi, 2, [sys.executable, script], APPLES_NODE_SOCKET=path).end()
    waited_s, used_s = map(float, said.split())
    assert waited_s > 0.5
    assert used_s < waited_s / 4


#: Exchanges in which no call of the program both sends or receives and waits.
BEGUN_FIRST = ["waited_for", "asked_for", "persistent", "together"]
ways = pytest.mark.parametrize("talking", ["plainly", *BEGUN_FIRST], indirect=True)


def progress(figures):
    """How far rank 1 has come: messages where they are counted, for it may ask for one of them very often."""
    return figures[1].received or figures[1].calls


@ways
@pytest.mark.covering("mpi", "talking")
def test_messages_are_requests_while_the_sender_is_scheduled(talking):
    """Rank 1 is not scheduled: messages of rank 0 ask for its turn until rank 0 is not scheduled either."""
    started, (first, second) = talking
    assert (first.requests(), second.requests()) == (0, 0)
    second.set_scheduled(False)
    figures = started.page_figures(2, lambda figures: figures[1].requests > 3)
    assert figures[0].requests == 0
    assert figures[1].last_request_s >= figures[1].started_s
    first.set_scheduled(False)
    done = progress(started.job.figures())
    started.page_figures(2, lambda figures: progress(figures) > done + 100)
    before = started.job.figures()
    started.page_figures(2, lambda figures: progress(figures) > progress(before) + 100)
    assert [f.requests for f in started.job.figures()] == [f.requests for f in before]
    # The news that rank 0 has its turn now is a message as well.
    first.set_scheduled(True)
    started.page_figures(2, lambda figures: figures[1].requests > before[1].requests)


@pytest.mark.parametrize("talking", ["asked_for"], indirect=True)
def test_asking_in_vain_is_no_request(talking):
    """A loop of MPI_Test counts what it has completed, however often it asks."""
    started, (_, second) = talking
    second.set_scheduled(False)
    figures = started.page_figures(2, lambda figures: figures[1].requests > 100)
    assert figures[1].requests <= figures[1].sent + figures[1].received
    second.set_scheduled(True)


@pytest.fixture
def waiting(mpi, start, manager, tmp_path, pages_directory):
    """Starts a script on two ranks; what they wait for (a file for each), their pages, and what was started."""
    pages = []

    def begin(script):
        _, path = manager()
        go, program = [tmp_path / "0", tmp_path / "1"], tmp_path / "program.py"
        program.write_text(script)
        started = start(mpi, 2, [sys.executable, program, *go], APPLES_NODE_SOCKET=path)
        started.page_figures(2, lambda figures: all(f.state is MonitorState.RUNNING for f in figures))
        pages.extend(MonitorPage.attach(pages_directory / f"job.{rank}") for rank in range(2))
        return started, go, pages

    yield begin
    for page in pages:
        page.close()


OLD_MAIL = text_of("apples/monitoring/old_mail.txt")


@pytest.mark.covering("mpi", "still_scheduled")
@pytest.mark.parametrize("still_scheduled", [True, False])
def test_old_mail_of_one_that_is_scheduled_no_more_is_no_request(waiting, still_scheduled):
    """Rank 0 says so while it waits; its message lay there long before rank 1 came to receive it."""
    started, go, (first, second) = waiting(OLD_MAIL)
    first.set_wait(Wait.POLL, 1e-4)
    second.set_scheduled(False)
    go[0].touch()
    started.page_figures(2, lambda figures: figures[0].sent == 1)
    first.set_scheduled(still_scheduled)
    time.sleep(0.5)
    go[1].touch()
    started.end()
    assert [figures.requests for figures in started.job.figures()] == [0, int(still_scheduled)]


TESTS_ONLY = text_of("apples/monitoring/tests_only.txt")


def test_rank_that_only_tests_tells_that_it_is_scheduled_again(waiting):
    started, go, (first, second) = waiting(TESTS_ONLY)
    second.set_scheduled(False)
    go[0].touch()
    first.set_scheduled(False)
    time.sleep(0.5)
    first.set_scheduled(True)
    started.page_figures(2, lambda figures: figures[1].requests > 0)
    second.set_scheduled(True)
    go[1].touch()
    started.end()
