import os

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/nightly/" in str(item.path):
            item.add_marker("nightly")


@pytest.fixture(scope="session")
def seed():
    """`$NIGHTLY_SEED`, else 1: the same seed gives the same inputs and faults."""
    return int(os.environ.get("NIGHTLY_SEED", "1"))
