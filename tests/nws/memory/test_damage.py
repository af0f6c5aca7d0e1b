"""Random damage to copies of a store: nothing wrong is served, and what was not hit survives a repair.

`tests/nightly` does the same a thousand times.
"""

from tests.nightly import storedamage


def test_damage_is_never_served_and_the_rest_is_repaired():
    tally = storedamage.run(copies=10, seed=7, hours=4)
    assert not storedamage.failed(tally), tally.problems
    assert tally.counts["refused"] > 0 < tally.counts["answers"]
