"""Sensors are found by name."""

import pytest

from nws.base.errors import UsageError
from nws.sensors import create, names


@pytest.mark.parametrize("name", names())
def test_sensor_can_be_made(name):
    assert callable(create(name, host="here", clock=float).measure)


def test_unknown_name_is_answered_with_the_list():
    with pytest.raises(UsageError, match="no sensor is called 'disk'; there are cpu, memory, network"):
        create("disk", host="here", clock=float)
