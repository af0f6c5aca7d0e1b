"""Checkpoints of users' programs: which one a run goes on from."""

from apples.run.checkpoints import newest_whole
from tests.transcripts import recorded


@recorded("apples/run/newest_checkpoints.txt", "found", "earlier")
def test_newest_whole_checkpoint_is_found(answered, found, earlier):
    answered(str(newest_whole(found, earlier, 100)))
