"""Whole numbers that a program takes: listed, or by a rule."""

from dataclasses import dataclass

import pytest

from apples.errors import ConfigError
from apples.model.wholenumbers import ANY, WholeNumbersEntry
from nws.base.reader import load_yaml
from tests.transcripts import recorded


@dataclass(frozen=True)
class _Entry:
    numbers: WholeNumbersEntry


def read(path, text):
    path.write_text(f"numbers: {text}\n")
    return load_yaml(path, _Entry).numbers


@recorded("apples/model/whole_numbers.txt", "text")
def test_rule_has_its_numbers(tmp_path, answered, text):
    numbers = read(tmp_path / "file.yaml", text)
    legal = [n for n in range(27) if n in numbers]
    answered(str(legal))
    following = [next((m for m in legal if m >= n), None) for n in range(1, legal[-1])]
    assert [numbers.following(n) for n in range(1, legal[-1])] == following
    assert numbers.preceding(26) == legal[-1]
    assert numbers.preceding(legal[0] - 1) is None


def test_any_number_from_one_is_legal():
    assert [n for n in range(4) if n in ANY] == [1, 2, 3]
    assert (ANY.following(7), ANY.preceding(7)) == (7, 7)


@pytest.mark.parametrize(
    "text", ["0", "-3", "[]", "[2, x]", "true", "1.5", "powers of 1", "multiples of 0", "0*n", "n+1", "fixed"]
)
def test_other_texts_are_refused_with_the_legal_ones(tmp_path, text):
    with pytest.raises(ConfigError, match=r"file.yaml:1: .*legal are a whole number .* powers of two"):
        read(tmp_path / "file.yaml", text)


@recorded("apples/model/largest_numbers.txt", "text")
def test_number_beyond_any_mesh_has_the_largest_next_to_it(tmp_path, answered, text):
    answered(read(tmp_path / "file.yaml", text).refusal(10**400))
