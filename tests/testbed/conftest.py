"""The lab, for the testbed's own tests."""

from .fixtures import lab

__all__ = ["lab"]
