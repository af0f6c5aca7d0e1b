"""What can go wrong with a testbed, one class: the message says what was tried and what came of it."""


class TestbedError(Exception):
    """A testbed cannot be made, or has no such host; `exit code 1` on the command line."""

    __test__ = False
