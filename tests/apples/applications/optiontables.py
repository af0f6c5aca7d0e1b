"""Options of application files against the tables of the program that they describe."""

from pathlib import Path

from apples.applications import __file__ as package, names
from apples.applications.appfile import read_application


def assert_options_match(name, options, defaults=()):
    """Assert that file and program have the same defaults and bounds. defaults : options whose default differs"""
    assert name in names()
    entry = read_application(Path(package).with_name(f"{name}.yaml")).entry
    parameters = {"iterations": entry.iterations, **entry.parameters}
    for option in options:
        ours = parameters[option.name]
        assert (ours.at_least, ours.at_most, ours.above) == (option.at_least, option.at_most, option.above)
        assert ours.one_of == option.choices
        if option.name not in defaults:
            assert ours.default == option.parse(option.default)
