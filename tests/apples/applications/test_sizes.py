"""Application files that say which sizes and numbers of ranks a program takes."""

import pytest

from apples.applications.described import read_program
from apples.errors import ConfigError
from tests.transcripts import recorded

FILE = """\
name: toy
command: [./toy, "{{ rows }}", "{{ iterations }}"]
iterations: 5
benchmark: {iterations: 2}
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(more):
        (tmp_path / "toy.yaml").write_text(FILE + more)
        return read_program("toy.yaml")

    return read


@pytest.mark.parametrize(
    ("more", "size", "stated", "short_size"),
    [
        ("sizes: 600\n", 500, r"legal: 600$", 600),
        ("sizes: [20, 40]\n", 64, r"legal: 20, 40$", 40),
        ("sizes: multiples of 24\n", 50, r"legal: multiples of 24 \(nearest 48 and 72\)", 72),
    ],
)
def test_size_without_mesh_is_refused_with_the_legal_ones(program, more, size, stated, short_size):
    toy = program(more)
    with pytest.raises(ConfigError, match=rf"toy.yaml: sizes: toy has no mesh of {size}; {stated}"):
        toy.workload(size, {})
    assert toy.workload(short_size, {}).size == toy.short_size == short_size


def test_ranks_are_those_of_the_rule_and_its_bounds(program):
    ranks = program("ranks: powers of two\nmin_ranks: 2\nmax_ranks: 9\n").workload(64, {}).ranks
    assert [n for n in range(20) if n in ranks] == [2, 4, 8]
    assert str(ranks) == "powers of two, at least 2, at most 9"


@recorded("apples/applications/rules_without_numbers.txt", "more")
def test_rule_without_numbers_is_an_error_with_line(program, answered, tmp_path, more):
    with pytest.raises(ConfigError, match=r"toy\.yaml:5: ") as caught:
        program(more)
    answered(str(caught.value).replace(f"{tmp_path}/", ""))


def test_serial_command_is_that_of_one_rank(program, tmp_path):
    toy = program("serial: [./alone, '{{ iterations }}']\n")
    commands = [toy.start(rows, tmp_path, {}).command for rows in ([6], [4, 2])]
    assert commands == [
        (str(tmp_path / "alone"), "5"),
        (str(tmp_path / "toy"), "[4, 2]", "5"),
    ]
    assert toy.fewest_measured == 2
