"""Classes of programs remembered between runs."""

import subprocess
import sys
import time

import pytest

from apples.coscheduling.classes import ProcessClass
from apples.coscheduling.events import Process
from apples.daemons.classmemory import ClassMemory
from apples.daemons.processes import ProcessRegistration, program_of


def registered(job="x", rank=0, program="/opt/solver", ranks=2):
    return ProcessRegistration(
        process=Process(job, rank), ranks=ranks, pid=7, uid=0, started=1, program=program
    )


def test_class_memory_outlives_its_daemon_and_the_job(tmp_path):
    path = tmp_path / "state" / "classes.json"
    assert ClassMemory(path).recall(registered()) is None
    ClassMemory(path).note(registered(), ProcessClass.DC)
    assert ClassMemory(path).recall(registered(job="later")) is ProcessClass.DC
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [{"rank": 1}, {"ranks": 3}, {"program": "/opt/other"}, {"program": None}])
def test_class_memory_knows_ranks_and_programs_apart(tmp_path, other):
    memory = ClassMemory(tmp_path / "classes.json")
    memory.note(registered(), ProcessClass.F)
    assert memory.recall(registered(**other)) is None


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"/opt/solver 0/2": "XX"}'])
def test_class_memory_of_a_damaged_file_is_empty(tmp_path, text):
    (tmp_path / "classes.json").write_text(text)
    (tmp_path / "classes.json").chmod(0o600)
    assert ClassMemory(tmp_path / "classes.json").recall(registered()) is None


def test_duties_are_those_of_the_last_run_of_a_program(tmp_path):
    memory = ClassMemory(tmp_path / "classes.json")
    for ranks, duties in ((3, (0.1, 0.2, 0.3)), (2, (0.9, 0.5))):
        for rank, duty in enumerate(duties):
            memory.note(
                registered(rank=rank, ranks=ranks, program="/usr/bin/python /opt/solver in"), None, duty
            )
    later = ClassMemory(tmp_path / "classes.json")
    for name in ("/opt/solver in", "solver in", "in"):
        assert later.duties(name) == [0.9, 0.5]
    assert later.duties("solver out") == later.duties("") == []


def test_class_memory_forgets_the_oldest_programs(tmp_path):
    memory = ClassMemory(tmp_path / "classes.json")
    for number in range(600):
        memory.note(registered(program=f"/opt/{number}"), ProcessClass.CS)
    assert memory.recall(registered(program="/opt/0")) is None
    assert memory.recall(registered(program="/opt/599")) is ProcessClass.CS


def test_class_memory_without_a_writable_file_works_in_this_daemon(tmp_path):
    (tmp_path / "file").touch()
    memory = ClassMemory(tmp_path / "file" / "classes.json")
    memory.note(registered(), ProcessClass.CS)
    assert memory.recall(registered()) is ProcessClass.CS


@pytest.mark.parametrize(
    ("command", "name"), [(["sleep", "60"], "sleep 60"), ([sys.executable, "-c", "input()"], sys.executable)]
)
def test_program_is_named_by_its_words_before_the_options(command, name):
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 10
        # Right after the start, the kernel shows no command line.
        while (found := program_of(process.pid)) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert found == name


def test_program_of_a_process_that_has_ended_has_no_name():
    process = subprocess.Popen(["true"])
    process.wait()
    assert program_of(process.pid) is None


def test_duties_are_those_of_the_last_run_if_an_earlier_had_the_same(tmp_path):
    memory = ClassMemory(tmp_path / "classes.json")
    for ranks, duties in ((3, (0.1, 0.2, 0.3)), (2, (0.9, 0.5)), (3, (0.1, 0.2, 0.3))):
        for rank, duty in enumerate(duties):
            memory.note(registered(rank=rank, ranks=ranks), None, duty)
    assert ClassMemory(tmp_path / "classes.json").duties("solver") == [0.1, 0.2, 0.3]
