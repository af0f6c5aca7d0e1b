"""Application files: every mistake with its line, all at once; templates in a sandbox."""

import sys
import time
from pathlib import Path

import pytest

from apples.applications.appfile import read_application
from apples.applications.described import read_program
from apples.errors import ConfigError, LaunchError
from apples.launching.deployment import deploy
from apples.model.cut import Axes, Box
from nws.base import bounded
from tests.transcripts import recorded, text_of

WAVE = text_of("apples/applications/appfile_wave.txt")
MELT = text_of("apples/applications/appfile_melt.txt")


@pytest.fixture
def program(tmp_path):
    def make(text, name="app.yaml"):
        file = tmp_path / name
        file.write_text(text)
        return read_program(file)

    return make


@pytest.fixture
def problems(tmp_path, monkeypatch):
    """Returns the problems of a file, as lines without its directory."""
    monkeypatch.chdir(tmp_path)

    def read(text):
        Path("app.yaml").write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_application("app.yaml")
        return caught.value.problems

    return read


def test_wave_example_gives_its_command(program, tmp_path):
    wave = program(WAVE)
    start = wave.start([10, 30, 20], tmp_path, {"iterations": "7"})
    assert start.command == (
        *(str(tmp_path / "wave2d"), "--nx", "2000", "--steps", "7", "--rows"),
        "10,30,20",
    )
    assert (start.directory, start.files, start.mpi) == (tmp_path, {}, None)
    work = wave.workload(60, {})
    assert (work.application, work.row, work.iterations, work.size) == ("wave2d", "line of cells", 500, 60)


def test_melt_example_renders_its_file(program, tmp_path):
    start = program(MELT).start([6, 14], tmp_path, {})
    assert start.files == {tmp_path / "balance.in": "processors 1 1 2\nbalance 1.0 z 0.3\n"}
    assert start.command[:4] == ("lmp", "-in", "in.melt", "-var")
    assert start.mpi == "openmpi"
    alone = program(MELT).start([20], tmp_path, {})
    assert alone.files == {tmp_path / "balance.in": "processors 1 1 1\n\n"}


def test_variables_describe_the_pieces(program, tmp_path):
    text = WAVE + 'environment: {A: "{{ size }} {{ first_rows }} {{ weights }} {{ run_dir }} {{ python }}"}\n'
    start = program(text).start([10, 30], tmp_path, {})
    assert start.environment["A"] == f"40 [0, 10] [0.25, 0.75] {tmp_path} {sys.executable}"


def test_undefined_names_are_errors_with_line(problems):
    text = MELT.replace("{{ ranks }}", "{{ rank }}").replace("{{ size }}", "{{ sise }}")
    legal = "size, ranks, rows, first_rows, cuts, weights, iterations, run_dir, python"
    assert problems(text) == (
        f"app.yaml:4: command.5: sise is not defined; legal are {legal}",
        f"app.yaml:7: files.balance.in: rank is not defined; legal are {legal}",
    )


def test_problem_of_a_file_is_reported(problems):
    text = text_of("apples/applications/appfile_wrong.txt")
    found = problems(text)
    assert [line.split(": ")[0] for line in found] == [
        *("app.yaml:1", "app.yaml:2", "app.yaml:2", "app.yaml:3", "app.yaml:4", "app.yaml:5", "app.yaml:6")
    ]
    assert "write it in quotes" in "\n".join(found)


@recorded("apples/applications/file_problems.txt", "change")
def test_unusable_file_names_line_and_remedy(problems, answered, change):
    answered(problems(WAVE.replace(*change)))


def test_progress_expression_is_part_of_the_start(program, tmp_path):
    assert program(WAVE).start([4], tmp_path, {}).progress is None
    assert program(WAVE + "progress: step ([0-9]+)\n").start([4], tmp_path, {}).progress == "step ([0-9]+)"


def test_even_program_needs_no_pieces(program, tmp_path):
    text = WAVE.replace("{{ rows | join(',') }}", "{{ size }}") + "pieces: even\n"
    assert program(text).even


def test_template_cannot_reach_python(program, tmp_path):
    wave = program(WAVE.replace("{{ rows |", "{{ rows.__class__.__mro__ |"))
    with pytest.raises(ConfigError, match=r"app\.yaml:3: the template cannot be rendered: .*unsafe"):
        wave.start([4], tmp_path, {})


def test_template_that_fails_names_its_line(program, tmp_path):
    text = MELT.replace("processors 1 1 {{ ranks }}", "processors 1 1\n    {{ size // (ranks - 1) }}")
    with pytest.raises(ConfigError, match=r"app\.yaml:8: the template cannot be rendered: integer division"):
        program(text).start([4], tmp_path, {})


def test_parameters_are_options_of_their_type(program, tmp_path):
    text = WAVE.replace('"2000"', '"{{ nx * 2 }}"') + "parameters: {nx: 100, wet: true, c: 0.5, tag: a}\n"
    wave = program(text)
    assert wave.start([4], tmp_path, {}).command[2] == "200"
    assert wave.start([4], tmp_path, {"nx": "7"}).command[2] == "14"
    with pytest.raises(ConfigError) as caught:
        wave.check({"nx": "x", "wet": "3", "iterations": "0", "iteration": "3"})
    assert caught.value.problems == (
        "wave2d: unknown option 'iteration' (did you mean iterations?); legal are iterations, nx, wet, c, tag",
        "wave2d: option nx: got 'x'; legal is a whole number (default 100)",
        "wave2d: option wet: got '3'; legal is true or false (default True)",
        "wave2d: option iterations: got '0'; legal is a whole number at least 1 (default 500)",
    )


def test_commands_are_one_or_several(program, tmp_path):
    text = WAVE + 'prepare: [./cut, "{{ ranks }}"]\nfinish: [[join], [ls, "{{ size }}"]]\n'
    start = program(text).start([2, 3], tmp_path, {})
    assert start.prepare == ((str(tmp_path / "cut"), "2"),)
    assert start.finish == (("join",), ("ls", "5"))


def test_program_without_more_is_measured_by_the_monitor(program):
    wave = program(WAVE)
    assert (wave.warm, wave.records, wave.benchmark, wave.checkpoint, wave.restart) == ((), *[None] * 4)
    assert wave.measured_by_monitor
    assert not wave.moves_rows
    assert wave.short({"nx": "4"}) == {"nx": "4", "iterations": "20"}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            'environment: {"A=B": x}',
            "6: environment.A=B: no name of a variable: it is empty, or has a NUL or =",
        ),
        (
            'environment: {"A\\0": x}',
            "6: environment.A\0: no name of a variable: it is empty, or has a NUL or =",
        ),
        ('environment: {A: "x\\0"}', "6: environment.A: has a NUL, which no program can get"),
        ("files: {app.yaml: x}", "6: files.app.yaml: is this file itself; give it another name"),
        ('files: {"a\\0": x}', "6: files.a\0: should be a path below the directory of the program"),
    ],
)
def test_names_that_cannot_be_used_are_errors(problems, more, problem):
    assert problems(f"{WAVE}{more}\n") == (f"app.yaml:{problem}",)


def test_rendered_file_behind_a_link_is_not_written(program, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in/link").symlink_to("../out")
    start = program(f"{WAVE}directory: in\nfiles: {{link/new/input: x}}\n").start([4], tmp_path, {})
    with pytest.raises(LaunchError, match=r"leads out of .*/in by a link; nothing is written there"):
        deploy(start, print)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9 ** 999999999 }}",
        "{{ 'a' * 99999999 }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_template_without_end_is_given_up(program, monkeypatch, template):
    monkeypatch.setattr(bounded, "CPU_S", 1)
    begun = time.monotonic()
    with pytest.raises(ConfigError, match=r"app\.yaml:7: .*(it takes more than|MemoryError)"):
        program(f'{WAVE}environment:\n  A: "{template}"\n').start([4], Path("run"), {})
    assert time.monotonic() - begun < 20.0


def test_price_key_has_parameters_but_not_iterations(program):
    text = WAVE + "parameters: {nx: 4, every: {default: 2, priced: false}, log: {path: true}}\n"
    wave = program(text)
    same = [wave.price_key(o) for o in ({}, {"iterations": "7"}, {"every": "3"}, {"log": "x"})]
    assert len(set(same)) == 1
    assert wave.price_key({"nx": "5"}) not in same


RESTART = """\
restart:
  checkpoint: 'state\\.([0-9]+)'
  command: [./wave2d, --from, "{{ checkpoint }}", --done, "{{ done }}", --steps, "{{ iterations }}"]
"""


def test_restart_command_goes_on_from_its_checkpoint(program, tmp_path):
    wave = program(WAVE + RESTART + "prepare: [./mesh]\n")
    for name in ("state.20", "state.40", "state.60.tmp", "state.x"):
        (tmp_path / name).write_text("x")
    assert set(wave.restart()) == {20, 40}
    first = wave.start([4], tmp_path, {})
    assert (first.command[1], first.prepare) == ("--nx", ((str(tmp_path / "mesh"),),))
    again = wave.start([4], tmp_path, {}, done=40)
    assert again.command[1:] == ("--from", str(tmp_path / "state.40"), "--done", "40", "--steps", "500")
    assert again.prepare == ()
    (tmp_path / "state.40").unlink()
    with pytest.raises(LaunchError, match="the checkpoint of 40 iterations is gone"):
        wave.start([4], tmp_path, {}, done=40)


def test_restart_problems_have_their_lines(problems):
    text = WAVE.replace("--steps,", '--steps, "{{ done }}",')
    assert [line.split(": ")[0] for line in problems(text)] == ["app.yaml:3"]
    text = WAVE + RESTART.replace("([0-9]+)", "[0-9]+").replace("{{ done }}", "{{ dune }}")
    assert [line.split(": ")[0] for line in problems(text)] == ["app.yaml:7", "app.yaml:8"]


PLATE = text_of("apples/applications/appfile_plate.txt")
BOXES = [Box(x=x, y=y, width=w, height=h) for y, h in ((0, 6), (6, 4)) for x, w in ((0, 5), (5, 3))]


def test_axes_give_widths_and_heights(program, tmp_path):
    plate = program(PLATE)
    assert plate.workload(10, {"nx": "7"}).axes == Axes(cut="rectilinear", width=14, min_width=3)
    assert plate.start([6, 4], tmp_path, {}).command[-4:] == ("-lx", "8", "-ly", "6,4")
    boxed = plate.start([6, 6, 4, 4], tmp_path, {}, boxes=BOXES)
    assert boxed.command[-4:] == ("-lx", "5,3", "-ly", "6,4")


def test_boxes_are_variables_of_both_cuts(program, tmp_path):
    shown = "{{ size }} {{ rows }} {{ first_rows }} {{ weights }} "
    shown += "{% for b in boxes %}{{ b.x }}+{{ b.width }} {% endfor %}"
    grid = PLATE + f'environment: {{A: "{shown}{{{{ procs_x }}}}{{{{ procs_y }}}}"}}\n'
    columns = (
        PLATE.replace("rectilinear", "columns")
        .replace("{{ ly |", "{{ columns |")
        .replace('"{{ nx * 2 }}"', "8")
    )
    start = program(grid).start([6, 6, 4, 4], tmp_path, {}, boxes=BOXES)
    assert start.environment["A"] == (
        "10 [6, 6, 4, 4] [0, 0, 6, 6] [0.375, 0.225, 0.25, 0.15] 0+5 5+3 0+5 5+3 22"
    )
    uneven = [*BOXES[:1], BOXES[2], Box(x=5, y=0, width=3, height=10)]
    assert program(columns).start([6, 4, 10], tmp_path, {}, boxes=uneven).command[-3:] == (
        "5,3",
        "-ly",
        "2,1",
    )


@recorded("apples/applications/axes_problems.txt", "change")
def test_unusable_axes_name_line_and_remedy(problems, answered, change):
    assert change[0] in PLATE
    answered(problems(PLATE.replace(*change)))


def test_width_that_is_no_number_is_an_error(program):
    plate = program(PLATE)
    with pytest.raises(
        ConfigError, match=r"app\.yaml: axes\.width: got '2'; expected a whole number, 3 or more"
    ):
        plate.check({"nx": "1"})
    with pytest.raises(ConfigError, match=r"axes\.width: got '2000.*of at most 9 digits"):
        plate.check({"nx": f"1{'0' * 4000}"})
