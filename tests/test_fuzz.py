"""Generated inputs for all listeners and state files; `tests/nightly` sends many more."""

import random

import pytest

from tests.nightly.conversations import attack
from tests.nightly.listeners import LISTENERS
from tests.nightly.statefiles import FILES, attack_file

INPUTS = {"queue": 600, "node": 400, "manager": 400, "agent": 400}


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_ends_a_daemon(name):
    chance = random.Random(3)
    with LISTENERS[name](chance) as listener:
        result = attack(listener, INPUTS[name], chance)
    assert result.inputs >= INPUTS[name]
    assert any(answer != "closed" for _, answer in result.answers), "they reach far enough"


@pytest.mark.parametrize("name", FILES)
def test_no_damaged_file_is_an_unknown_error(name):
    assert attack_file(name, 40, 3).total() == 40
