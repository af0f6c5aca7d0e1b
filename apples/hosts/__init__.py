"""Hosts that run ranks: the checks before a run, the agent on each host, and the connections to it."""
