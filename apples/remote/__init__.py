"""Other machines, over the user's own ssh: how they are reached, what they are like, which of them can take a run."""
