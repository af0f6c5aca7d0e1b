"""What to do when a run does not end well: pure decisions about attempts, checkpoints and what is left to do.

`apples.enactor` carries them out.
"""
