"""Objects that are closed at the end of a `with` block."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Closing:
    """A context manager that calls its `close` at the end."""

    def close(self) -> None:
        """Let go of everything that is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
