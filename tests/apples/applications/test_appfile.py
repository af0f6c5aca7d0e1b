"""Application files: templates within limits, keys of prices, checkpoints; `test_programs.py` has the rest."""

from pathlib import Path

import pytest

from apples.applications import rendering
from apples.applications.described import read_program
from apples.errors import ConfigError, LaunchError
from apples.launching.deployment import deploy
from nws.base import bounded
from tests.transcripts import text_of

WAVE = text_of("apples/applications/appfile_wave.txt")


@pytest.fixture
def program(tmp_path):
    def make(text, name="app.yaml"):
        file = tmp_path / name
        file.write_text(text)
        return read_program(file)

    return make


def test_even_program_needs_no_pieces(program, tmp_path):
    text = WAVE.replace("{{ rows | join(',') }}", "{{ size }}") + "pieces: even\n"
    assert program(text).even


def test_program_without_more_is_measured_by_the_monitor(program):
    wave = program(WAVE)
    assert (wave.warm, wave.records, wave.benchmark, wave.checkpoint, wave.restart) == ((), *[None] * 4)
    assert wave.measured_by_monitor
    assert not wave.moves_rows
    assert wave.short({"nx": "4"}) == {"nx": "4", "iterations": "20"}


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
        # Some seconds of CPU time, memory beyond the limit, a text beyond it.
        "{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}",
        "{% set text = 'a' * 90000000 %}",
        "{{ 'a' * 70000 }}",
    ],
)
def test_template_beyond_limits_is_given_up(program, monkeypatch, template):
    monkeypatch.setattr(bounded, "CPU_S", 1)
    monkeypatch.setattr(rendering, "MOST_BYTES", 1 << 16)
    with pytest.raises(ConfigError, match=r"app\.yaml:7: .*(it takes more than|MemoryError)"):
        program(f'{WAVE}environment:\n  A: "{template}"\n').start([4], Path("run"), {})


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
