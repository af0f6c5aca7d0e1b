"""Records made from other records with fields of the same names."""

from typing import Any, TypeVar

T = TypeVar("T")


def copied(kind: type[T], source: object, /, **others: Any) -> T:
    """Return a record of `kind`: `others`, and each further field that `source` has as an attribute.

    kind : a dataclass, or a struct of msgspec
    """
    names: Any = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", ())
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)} | others)


def document_of(source: object, *names: str) -> dict[str, Any]:
    """Return the values of these attributes by name."""
    return {name: getattr(source, name) for name in names}
