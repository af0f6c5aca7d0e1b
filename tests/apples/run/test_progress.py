"""Progress of a run: iterations from three sources, and the time left."""

import time

import pytest

from apples.cli.console import ProgressNotes
from apples.hosts.steering import PAGE_BEGIN, PAGE_ITERATIONS, PROGRESS, ProgressReader, page_of
from apples.launching.outputreader import OutputReader
from apples.monitoring import pagelayout
from apples.run.progress import AttemptProgress
from nws.base import bounded

OWN = (
    b'{"version": 1, "iteration": %d, "left": %s, "iterations": 5, "seconds": 1.0, "rows": [4], "compute_s": [0.5], '
    b'"exchange_s": [0], "reduce_s": [0], "moves": 0, "moved_s": null, "refused": null}'
)


class Run:
    """A run of 100 iterations after 20 that are done, predicted to take 50 s; `at` sets the clock."""

    def __init__(self, **options):
        self.now, self.told = 1000.0, []
        self.progress = AttemptProgress(
            first=20,
            iterations=100,
            predicted_s=50.0,
            now=lambda: self.now,
            report=self.told.append,
            **options,
        )

    def at(self, seconds, line):
        self.now = 1000.0 + seconds
        self.progress.hear(line)
        return self.told[-1] if self.told else None


def test_progress_of_the_application_gives_the_time_left():
    run = Run()
    assert run.at(10.0, OWN % (25, b"95"))["left_s"] == 40.0
    assert run.at(20.0, OWN % (45, b"75")) == {
        "iteration": 45,
        "iterations": 120,
        "elapsed_s": 20.0,
        "left_s": pytest.approx(37.5),
    }


def test_progress_from_output_counts_from_the_start_of_the_attempt():
    run = Run()
    run.at(5.0, b'{"reached": 10}')
    told = run.at(10.0, b'{"reached": 60}')
    assert (told["iteration"], told["iterations"], told["left_s"]) == (80, 120, pytest.approx(4.0))


def test_progress_of_the_monitor_without_its_multiple_has_no_end():
    told = Run().at(5.0, b'{"counted": 150}')
    assert (told["iteration"], told["iterations"], told["left_s"]) == (150, None, None)


def test_progress_of_the_monitor_with_its_multiple_has_an_end():
    run = Run(counted_each=2.0)
    run.at(5.0, b'{"counted": 20}')
    told = run.at(10.0, b'{"counted": 120}')
    assert (told["iteration"], told["iterations"], told["left_s"]) == (80, 120, pytest.approx(4.0))


@pytest.mark.parametrize(
    ("line", "options", "iteration", "iterations"),
    [
        (b'{"reached": 5814}', {}, 5834, None),
        (b'{"reached": 101}', {}, 120, 120),
        (b'{"counted": 5814}', {"counted_each": 2.0}, 2927, None),
        (b'{"counted": 206}', {"counted_each": 2.0}, 120, 120),
        (OWN % (125, b"-5"), {}, 125, 125),
    ],
)
def test_progress_beyond_the_iterations_has_no_share(line, options, iteration, iterations):
    told = Run(**options).at(5.0, line)
    assert (told["iteration"], told["iterations"]) == (iteration, iterations)


def test_progress_of_the_application_goes_before_the_monitors():
    run = Run()
    run.at(5.0, OWN % (25, b"95"))
    run.at(10.0, b'{"counted": 900}')
    assert len(run.told) == 1


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"counted": "x"}', b'{"version": 1}', b"3"])
def test_progress_lines_without_iterations_are_ignored(line):
    assert Run().at(5.0, line) is None


def test_progress_is_reported_once_a_second_at_most():
    run = Run()
    for step in range(10):
        run.at(5.0 + 0.3 * step, b'{"reached": %d}' % step)
    assert len(run.told) == 3


def test_output_reader_finds_the_latest_iteration_over_pieces():
    reader = OutputReader(r"^step\s+(\d+)")
    assert reader.lines(b"hello\nstep 1") == []
    assert reader.lines(b"0 of 99\nstep 12 of 99\nste") == [b'{"reached": 12}']
    assert reader.lines(b"p 11\nstep x\n") == []
    reader.close()


def test_output_reader_slow_pattern_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr(bounded, "CPU_S", 1)
    reader = OutputReader(r"^(\w+\s?)*$")
    begun = time.monotonic()
    assert reader.lines(b"a" * 60 + b"!\n") == reader.lines(b"step 1\n") == []
    assert time.monotonic() - begun < bounded.WAIT_S + 2
    assert [record.message[:21] for record in caplog.records] == ["progress is not shown"]


def test_progress_reader_joins_lines_and_the_page(tmp_path):
    path = tmp_path / "run.0"
    reader = ProgressReader(str(tmp_path), page_of({"APPLES_MONITOR": str(tmp_path), "APPLES_JOB": "run"}))
    assert reader.lines(1.0) == []
    (tmp_path / PROGRESS).write_bytes(b"one\ntwo")
    content = bytearray(pagelayout.PAGE_BYTES)
    content[: len(PAGE_BEGIN)] = PAGE_BEGIN
    content[PAGE_ITERATIONS] = 7
    path.write_bytes(content)
    assert reader.lines(1.1) == []
    assert reader.lines(2.0) == [b"one", b'{"counted": 7}']
    assert reader.lines(3.0) == []
    path.write_bytes(b"x" * pagelayout.PAGE_BYTES)
    assert reader.lines(4.0) == []


def test_steering_and_page_agree_on_the_iterations():
    assert pagelayout.offset(pagelayout.PROCESS_FIELDS, "iterations") == PAGE_ITERATIONS
    assert pagelayout.MAGIC.to_bytes(8, "little") + pagelayout.VERSION.to_bytes(4, "little") == PAGE_BEGIN


class Notes(list):
    note = list.append


def test_progress_notes_become_rarer():
    notes = Notes()
    shown = ProgressNotes(notes)
    for second in range(1, 100):
        shown.show(
            {"elapsed_s": float(second), "iteration": second, "iterations": 200, "left_s": 200.0 - second}
        )
    assert notes[0] == "iteration 5 of 200 (2%), about 195 s left"
    assert len(notes) == 8


def test_progress_notes_without_an_end_name_the_count():
    notes = Notes()
    ProgressNotes(notes).show({"elapsed_s": 9.0, "iteration": 12, "iterations": None, "left_s": None})
    assert notes == ["12 steps of the communication pattern, or of the program's output, so far"]
