"""Types of entries of application files: commands and regular expressions."""

import re
from dataclasses import dataclass
from typing import Annotated

from nws.base.quantities import Parsed


@dataclass(frozen=True, slots=True)
class _Commands(Parsed):
    """One command (a list of words), or a list of commands."""

    def parse(self, value: object) -> tuple[tuple[str, ...], ...]:
        commands = value if isinstance(value, list) else []
        if commands and not all(isinstance(command, list) for command in commands):
            commands = [commands]
        for command in commands:
            if not command or not all(isinstance(word, str) for word in command):
                raise ValueError(
                    "a command is a list of texts, such as [decomposePar, -force]; write numbers in quotes"
                )
        if not commands:
            raise ValueError("should be a command (a list of texts) or a list of commands")
        return tuple(tuple(command) for command in commands)


Commands = Annotated[tuple[tuple[str, ...], ...], _Commands()]

Word = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Words(Parsed):
    """A command: texts, and lists of texts that are left out if a variable in them has no value."""

    def parse(self, value: object) -> tuple[Word, ...]:
        if not isinstance(value, list):
            raise ValueError("should be a list of texts, the program first")
        for number, word in enumerate(value, 1):
            texts = word if isinstance(word, list) else [word]
            if not all(isinstance(text, str) for text in texts):
                # Without the value, which may be written in another way than Python prints it.
                raise ValueError(f"should be texts; entry {number} is not text; write it in quotes")
        return tuple(tuple(word) if isinstance(word, list) else word for word in value)


Words = Annotated[tuple[Word, ...], _Words()]


@dataclass(frozen=True, slots=True)
class _Pattern(Parsed):
    """A regular expression with a group."""

    def parse(self, value: object) -> str:
        try:
            if isinstance(value, str) and re.compile(value).groups:
                return value
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from None
        raise ValueError(
            "should be a regular expression with a group for the iteration, such as 'step +([0-9]+)'"
        )


Pattern = Annotated[str, _Pattern()]
