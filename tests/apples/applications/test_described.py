"""Parts of application files that programs with files of their own use: checkpoints, benchmarks, records, formulas."""

import json
from pathlib import Path

import pytest

from apples.applications.described import read_program
from apples.applications.parameters import Formula
from apples.applications.rendering import Text
from apples.errors import ConfigError
from tests.transcripts import text_of

FILE = text_of("apples/applications/appfile_parts.txt")


@pytest.fixture
def wave(tmp_path):
    (tmp_path / "wave.yaml").write_text(FILE.replace("inspect.py", str(tmp_path / "inspect.py")))
    return read_program(tmp_path / "wave.yaml")


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
