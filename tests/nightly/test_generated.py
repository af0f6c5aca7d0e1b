"""Generated inputs and damage at length; the seed is printed, and `$NIGHTLY_SEED` sets it."""

import errno
import random

import pytest

from tests.nightly import storedamage
from tests.nightly.conversations import attack
from tests.nightly.failingcalls import BROKEN, NO_DESCRIPTORS, NO_MEMORY, NO_SPACE, Plan
from tests.nightly.faults import DAEMONS, inject
from tests.nightly.listeners import LISTENERS
from tests.nightly.statefiles import FILES, attack_file

INPUTS, DAMAGED_FILES, DAMAGED_STORES = 100_000, 8_000, 1000
#: Calls and their error. Files only, where the error is one of a disk.
FAULTS = (
    ("write", NO_SPACE, True),
    ("write", BROKEN, True),
    ("open", NO_SPACE, True),
    ("open", NO_DESCRIPTORS, False),
    ("fsync", BROKEN, True),
    ("rename", NO_SPACE, True),
    ("mmap", NO_MEMORY, False),
    ("malloc", NO_MEMORY, False),
    ("accept", NO_DESCRIPTORS, False),
    ("socket,pipe", NO_DESCRIPTORS, False),
    ("fork", errno.EAGAIN, False),
)


@pytest.mark.parametrize("name", LISTENERS)
def test_listener_generated_inputs_survives(name, seed):
    chance = random.Random(seed)
    with LISTENERS[name](chance) as listener:
        result = attack(listener, INPUTS, chance)
    print(
        f"{name}: {result.inputs} inputs, slowest answer in between {result.slowest_s * 1e3:.0f} ms, {result.answers}"
    )


@pytest.mark.parametrize("name", FILES)
def test_reader_damaged_files_raises_our_errors(name, seed):
    print(f"{name}: {attack_file(name, DAMAGED_FILES, seed)}")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0]}-{errno.errorcode[fault[1]]}")
@pytest.mark.parametrize("name", DAEMONS)
def test_daemon_failing_calls_recovers(tmp_path, name, fault, seed):
    plan = Plan(tmp_path)
    answered = inject(name, plan, 3.0, seed, fault)
    print(f"{name}: {plan.failed} calls failed, {answered} requests answered in the second half")


def test_store_random_damage_serves_the_truth(seed):
    tally = storedamage.run(DAMAGED_STORES, seed, storedamage.HOURS)
    print(f"{dict(tally.counts)}, kept in the worst copy {tally.worst:.4f}")
    assert not storedamage.failed(tally), tally.problems
