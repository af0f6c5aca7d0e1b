"""Checkpoints of users' programs: which one a run goes on from."""

import pytest

from apples.run.checkpoints import newest_whole


@pytest.mark.parametrize(
    ("found", "earlier", "newest"),
    [
        ({}, {}, 0),
        ({10: (5, 1), 20: (5, 2)}, {}, 20),
        ({10: (5, 1), 20: (5, 2)}, {20: (5, 2)}, 10),
        ({10: (5, 1), 20: (5, 3)}, {20: (5, 2)}, 20),
        ({10: (5, 1), 20: (4, 2)}, {}, 10),
        ({10: (5, 1), 100: (5, 2)}, {}, 10),
    ],
    ids=["none", "newest", "not an earlier run's", "overwritten", "torn", "end leaves nothing"],
)
def test_newest_whole_checkpoint_is_found(found, earlier, newest):
    assert newest_whole(found, earlier, 100) == newest
