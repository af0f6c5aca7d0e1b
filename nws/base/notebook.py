"""Objects that a notebook shows as a table."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Tabular:
    """An object that is shown as a table by a notebook, in the order of its rows."""

    __slots__ = ()

    def table(self) -> Iterable[Mapping[str, object]]:
        """Return the rows: values by title, with the same titles in each row."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        from html import escape

        rows = list(self.table())
        cells = [[escape(_shown(value)) for value in row.values()] for row in rows]
        titles = "".join(f"<th>{escape(title)}</th>" for title in (rows[0] if rows else ()))
        lines = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in cells)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
