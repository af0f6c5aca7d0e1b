"""Errors of the system, raised as errors that name the file and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

#: Stands for the system's reason in a message; no text of a user has this character.
REASON = "\0"


@contextmanager
def os_errors_as(kind: type[Exception], message: str) -> Iterator[None]:
    """Raise each `OSError` of the block as an error of `kind`, with `REASON` in its message replaced."""
    try:
        yield
    except OSError as error:
        raise kind(message.replace(REASON, error.strerror or str(error))) from error
