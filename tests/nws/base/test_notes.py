"""Levels of what commands print beside results: the same options for each of them."""

import click
import pytest
from click.testing import CliRunner

from apples.cli.toolbox import toolbox
from nws.base.notes import note, with_levels
from nws.cli import cli as weather


def leaves(group):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from leaves(command) if isinstance(command, click.Group) else [(name, command)]


@pytest.mark.parametrize("group", [toolbox, weather], ids=["apples", "nws"])
def test_command_of_a_group_has_a_level(group):
    for name, command in leaves(group):
        words = {word for parameter in command.params for word in parameter.opts}
        assert "--log-level" in words, name
        of_another_program = command.context_settings.get("ignore_unknown_options")
        assert "--quiet" in words or of_another_program, name


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "a note\n"),
        (("-v",), "a note\n"),
        (("-q",), ""),
        (("--log-level=warning",), ""),
        (("-q", "-v"), None),
    ],
)
def test_note_is_printed_at_its_level(words, printed):
    command = with_levels(click.Command("one", callback=lambda: note("a note")))
    done = CliRunner().invoke(command, words)
    if printed is None:
        assert "exclude each other" in f"{done.output}{done.exception}"
    else:
        assert done.stderr == printed
    assert CliRunner().invoke(command, []).stderr == "a note\n"
