"""A real cluster where it can be made."""

import sys
from pathlib import Path

# The testbed is a package of its own beside the tests of the three packages.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from testbed.slurmfixtures import cluster

__all__ = ["cluster"]
