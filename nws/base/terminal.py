"""Text of other users on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Escaping:
    """A text stream that writes control characters as escapes, but for line breaks and tabs."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text; bytes go to `buffer` unchanged, as output of programs does."""
        lines = ("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))
        self._stream.write("\n".join(lines))
        return len(text)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Escape all text of this process on standard output and standard error during the block."""
    streams: Any = sys
    before = streams.stdout, streams.stderr
    streams.stdout, streams.stderr = (stream and _Escaping(stream) for stream in before)
    try:
        yield
    finally:
        streams.stdout, streams.stderr = before


def visible(text: str) -> str:
    """Return text in which control characters are escapes (``\\x1b``), line breaks too.

    Names, paths and messages of other users may contain sequences that a terminal obeys. Characters that change the
    direction of text, and bytes that are not UTF-8, become escapes as well.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode("ascii")
        for one in text
    )
