"""Progress of a run: iterations from three sources, and the time left."""

import time

from apples.cli.console import ProgressNotes
from apples.hosts.steering import PAGE_BEGIN, PAGE_ITERATIONS, PROGRESS, ProgressReader, page_of
from apples.launching.outputreader import OutputReader
from apples.monitoring import pagelayout
from apples.run.progress import AttemptProgress
from nws.base import bounded
from tests.transcripts import recorded

OWN = (
    '{"version": 1, "iteration": %s, "left": %s, "iterations": 5, "seconds": 1.0, "rows": [4], "compute_s": [0.5], '
    '"exchange_s": [0], "reduce_s": [0], "moves": 0, "moved_s": null, "refused": null}'
)


@recorded("apples/run/progress.txt", "why", "options", "lines")
def test_reported_progress_is_as_recorded(answered, why, options, lines):
    """A run of 100 iterations after 20 that are done, predicted to take 50 s, and lines at seconds of it."""
    clock, reports = [1000.0], []
    progress = AttemptProgress(
        first=20,
        iterations=100,
        predicted_s=50.0,
        now=lambda: clock[0],
        report=reports.append,
        **options,
    )
    for seconds, line in lines:
        clock[0] = 1000.0 + seconds
        progress.hear((OWN % tuple(line.split()[1:]) if line.startswith("own") else line).encode())
    answered([str(report) for report in reports] or "none")


def test_output_reader_finds_the_latest_iteration_over_pieces():
    reader = OutputReader(r"^step\s+(\d+)")
    assert reader.lines(b"hello\nstep 1") == []
    assert reader.lines(b"0 of 99\nstep 12 of 99\nste") == [b'{"reached": 12}']
    assert reader.lines(b"p 11\nstep x\n") == []
    reader.close()


def test_output_reader_slow_pattern_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr(bounded, "CPU_S", 1)
    reader = OutputReader(r"a.*b(\d)")
    begun = time.monotonic()
    # Some seconds of CPU time.
    assert reader.lines((b"a" * 4095 + b"\n") * 200) == reader.lines(b"step 1\n") == []
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
