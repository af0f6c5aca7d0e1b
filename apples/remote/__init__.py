"""Other hosts over ssh: checks before a run, speed tests, reachability."""
