"""Parts of application files that programs with files of their own use: checkpoints, benchmarks, records, formulas."""

import json
import sys
from pathlib import Path

import pytest

from apples.applications.appfile import read_application
from apples.applications.described import read_program
from apples.applications.parameters import Formula
from apples.applications.rendering import Text
from apples.errors import ConfigError
from apples.model.template import Checkpointing

FILE = """\
name: wave
command:
  ["{{ python }}", wave.py, --rows, "{{ rows | join(',') }}", --steps, "{{ iterations }}", [--log, "{{ log }}"],
   [--write, "{{ checkpoint }}"], [--every, "{{ checkpoint_every }}"], [--from, "{{ resume_from }}"]]
iterations: {default: 500, at_least: 10}
parameters:
  nx: {default: 100, at_least: 4, at_most: 2000}
  log: {path: true}
  scheme: {default: upwind, one_of: [upwind, central]}
memory_per_row: 16 * (nx + 2)
messages: 2
message_bytes: 8 * nx
records: record-*.json
benchmark: {command: ["{{ python }}", wave.py, --measure, "{{ result }}", --rows, "{{ size }}"]}
checkpoint:
  bytes_per_row: 8 * nx
  read: ["{{ python }}", inspect.py, "{{ checkpoint }}", "{{ verify }}", "{{ size }}", "{{ nx }}"]
"""


@pytest.fixture
def wave(tmp_path):
    (tmp_path / "wave.yaml").write_text(FILE.replace("inspect.py", str(tmp_path / "inspect.py")))
    return read_program(tmp_path / "wave.yaml")


def test_list_in_command_without_value_is_left_out(wave, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = wave.start([3, 4], tmp_path, {}).command
    assert plain == (sys.executable, "wave.py", "--rows", "3,4", "--steps", "500")
    keep = Checkpointing(file=tmp_path / "c", every=7, restart=True)
    kept = wave.start([3, 4], tmp_path, {"log": "a.log"}, keep=keep).command
    file = str(tmp_path / "c")
    assert kept[6:] == (
        *("--log", str(tmp_path / "a.log"), "--write", file),
        *("--every", "7", "--from", file),
    )


def test_workload_follows_from_formulas(wave):
    work = wave.workload(40, {"nx": "6", "iterations": "10"})
    assert (work.bytes_per_row, work.messages, work.bytes_exchanged) == (128.0, 20.0, 960.0)
    assert wave.checkpoint.size_bytes(40, {"nx": "6"}) == 40 * 48


def test_options_out_of_bounds_are_named(wave):
    with pytest.raises(ConfigError) as caught:
        wave.check({"nx": "3", "scheme": "none", "iterations": "9", "checkpoint_every": "2"})
    assert caught.value.problems == (
        "wave: option nx: got '3'; legal is a whole number at least 4 and at most 2000 (default 100)",
        "wave: option scheme: got 'none'; legal is one of upwind, central (default upwind)",
        "wave: option iterations: got '9'; legal is a whole number at least 10 (default 500)",
        "wave: option checkpoint_every: needs checkpoint=FILE, where to write to",
    )


def test_own_benchmark_has_its_command_and_rows(wave, tmp_path):
    assert not wave.measured_by_monitor
    command = wave.benchmark(tmp_path / "r.json", {}, 32).command
    assert command[2:] == ("--measure", str(tmp_path / "r.json"), "--rows", "32")


def test_checkpoint_reader_answers_or_gives_reasons(wave, tmp_path):
    program = tmp_path / "inspect.py"
    program.write_text("import sys; print('iterations:', 40 if sys.argv[2:] == ['all', '9', '5'] else 900)")
    file = tmp_path / "c"
    assert wave.checkpoint.iterations_in(file, 9, {"nx": "5"}, True) == 40
    with pytest.raises(
        ConfigError, match="at iteration 900 already and the run ends at 500; give -s iterations"
    ):
        wave.checkpoint.iterations_in(file, 9, {"nx": "5"}, False)
    program.write_text("raise SystemExit('c: of another mesh')")
    with pytest.raises(ConfigError, match="c: of another mesh"):
        wave.checkpoint.iterations_in(file, 9, {}, True)
    program.write_text("")
    with pytest.raises(ConfigError, match="printed no iterations"):
        wave.checkpoint.iterations_in(file, 9, {}, True)


def test_records_are_found_by_their_names(wave, tmp_path):
    times = dict.fromkeys(("setup_s", "compute_s", "exchange_s", "reduce_s", "total_s"), 1.0)
    for rank in (1, 0):
        record = {"rank": rank, "host": "a", "rows": 4, "iterations": 5, **times}
        (tmp_path / f"record-{rank}.json").write_text(json.dumps(record))
    assert [seen.rank for seen in wave.records(tmp_path)] == [0, 1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("16 * (nx + 2)", "16 * (ny + 2)"), "memory_per_row: ny is no parameter"),
        (("16 * (nx + 2)", "16 * nx.real"), "memory_per_row: '16 * nx.real': legal are numbers"),
        (("16 * (nx + 2)", "16 MBs"), "memory_per_row: '16 MBs': 'MBs' is not a unit"),
        (("at_least: 4", "least: 4"), "parameters.nx: unknown key least"),
        (("default: 100,", "default: 3,"), "parameters.nx: the default should be a whole number at least 4"),
        (("{{ verify }}", "{{ result }}"), "checkpoint.read.3: result is not defined"),
        (
            ("messages: 2", "messages: 2\nrestart: {checkpoint: '([0-9]+)', command: [a]}"),
            "restart: excludes",
        ),
        (("benchmark: {command", "benchmark: {size: 4} #"), "benchmark: needs iterations of short runs"),
    ],
)
def test_unusable_part_names_its_problem(tmp_path, monkeypatch, change, problem):
    monkeypatch.chdir(tmp_path)
    assert change[0] in FILE
    Path("wave.yaml").write_text(FILE.replace(*change))
    with pytest.raises(ConfigError) as caught:
        read_application("wave.yaml")
    assert any(problem in line for line in caught.value.problems), caught.value.problems


@pytest.mark.parametrize("template", ["{{ p }}", "{{ p }}{% if no %}{% endif %}"])
@pytest.mark.parametrize(
    "text", ["010", "0123", "12:30", "1.10", "1e-6", "no", "true", "True", "1_000", "0.10", "7", "1.", "~x"]
)
def test_parameter_is_shown_as_written(tmp_path, text, template):
    lines = ["name: x", f"command: [x, '{template}', '{{{{ iterations }}}}']", "iterations: 9"]
    lines += ["benchmark: {iterations: 2}", "pieces: even"]
    for parameter in (text, f"{{default: {text}}}"):
        path = tmp_path / "x.yaml"
        path.write_text("\n".join([*lines, f"parameters: {{p: {parameter}, no: false}}"]))
        program = read_program(path)
        assert program.start([4], tmp_path, {}).command[1] == text
        assert program.start([4], tmp_path, {"p": text}).command[1] == text


def test_parameter_as_written_counts_as_a_number(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "name: x\ncommand: [x, '{{ p * 2 }} {{ 1 if off else 0 }}', '{{ iterations }}']\niterations: 9\n"
        "benchmark: {iterations: 2}\npieces: even\n"
        "memory_per_row: 8 * p\nparameters: {p: 1.50, off: false}\n"
    )
    program = read_program(path)
    assert program.start([4], tmp_path, {}).command[1] == "3.0 0"
    assert program.workload(4, {}).bytes_per_row == 12.0


@pytest.mark.parametrize(
    "text", ["a {{ n }} b", "{{ rows | join(':') }}", "{{rows|join('')}}{{ n }}", "{n} }}", "é"]
)
def test_plain_text_renders_as_jinja_does(text):
    from apples.applications.rendering import _environment

    values = {"n": 4.5, "rows": [1, 2]}
    plain = Text(path=Path("f"), line=1, source=text)
    assert plain.plain_names is not None
    assert plain.render(values) == _environment().from_string(text).render(values)


@pytest.mark.parametrize(
    "text", ["{{ n + 1 }}", "{% if n %}{% endif %}", '{{ rows | join("\'") }}', "{# x #}"]
)
def test_other_text_is_left_to_jinja(text):
    assert Text(path=Path("f"), line=1, source=text).plain_names is None


def test_formula_without_value_is_an_arithmetic_error():
    assert Formula("-(2 + 3) // n").value({"n": 2}) == -3.0
    with pytest.raises(ZeroDivisionError):
        Formula("1 / n").value({"n": 0})
    for text in ("f(2)", "2 ** 99", "'a' * 3", "n[0]", "lambda: 1", "True + 1"):
        with pytest.raises(ValueError, match="legal are numbers"):
            Formula(text)
