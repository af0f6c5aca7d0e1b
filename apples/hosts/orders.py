"""The documents that a launcher sends a host agent: setup and start orders, each checked whole before it counts.

Imported by the host agent, so it imports little.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NUMBERS = (int, float)
#: Legal types of the fields of each document. A mapping and a list have texts only.
SETUP: dict[str, tuple[Any, ...]] = {
    "run_dir": (str,),
    "token": (str,),
    "directory": (str,),
    "proxies": (int,),
    "watched": (str, None),
    "look_s": (float,),
    "environment": (dict,),
    "beat_s": (*_NUMBERS, None),
    "silence_s": (*_NUMBERS, None),
}
START: dict[str, tuple[Any, ...]] = {
    "id": (int,),
    "command": (list,),
    "helper": (bool, None),
    "environment": (dict, None),
}
#: Largest number of proxies and of orders, longest text, and longest time in seconds.
_MOST, _LONGEST, _LONGEST_S = 1 << 20, 1 << 20, 1e6


class IllegalOrder(ValueError):
    """Raised for a frame that no launcher sends."""


def read_order(payload: bytes, legal: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a document of the launcher; raise `IllegalOrder` unless it has these fields. Null ones may lack.

    legal : `SETUP` or `START`
    """
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        raise IllegalOrder("not JSON") from None
    # Unknown fields come from another release, whose meaning of the others may differ as well.
    if not isinstance(document, dict) or document.keys() - legal.keys():
        raise IllegalOrder(f"expected an object with the fields {', '.join(legal)}")
    for name, kinds in legal.items():
        value = document.setdefault(name, None)
        # By `type`: True is an instance of int.
        if not any(value is None if kind is None else type(value) is kind for kind in kinds) or not _bounded(
            value
        ):
            raise IllegalOrder(f"{name} is not legal")
    if legal is START and not document["command"]:
        raise IllegalOrder("command is empty")
    return document


def read_signal(payload: bytes) -> int:
    """Return the number of a signal to forward; raise `IllegalOrder` if it is none."""
    text = payload[:4]
    # Linux has 64 signals, the real-time ones included.
    if len(text) == len(payload) and text.isdigit() and 0 < int(text) <= 64:
        return int(text)
    raise IllegalOrder("not the number of a signal")


def read_file(payload: bytes) -> tuple[str, bytes]:
    """Return name and content of a file for the run directory; raise `IllegalOrder` for a name with a directory."""
    name, _, content = payload.partition(b"\n")
    if not _is_name(name):
        raise IllegalOrder("not the name of a file")
    return name.decode(), content


def read_slabs(payload: bytes) -> str:
    """Return the heights of slabs, as numbers and commas; raise `IllegalOrder` for other text."""
    if payload.translate(None, b"0123456789,: "):
        raise IllegalOrder("not heights of slabs")
    return payload.decode()


def _is_name(name: bytes) -> bool:
    legal = len(name) <= 255 and name not in (b"", b".", b"..") and not {0, ord("/")} & set(name)
    try:
        return legal and bool(name.decode())
    except UnicodeDecodeError:
        return False


def _bounded(value: Any) -> bool:
    """Return whether a value of a legal type has a legal size; texts can be passed to the kernel."""
    if isinstance(value, str):
        # A text with a NUL would end there for the kernel, and mean something else.
        return len(value) <= _LONGEST and "\0" not in value and _is_encodable(value)
    if isinstance(value, dict):
        return all(
            name and "=" not in name and _bounded(name) and _is_text(text) for name, text in value.items()
        )
    if isinstance(value, list):
        return all(map(_is_text, value))
    if isinstance(value, int):
        return abs(value) <= _MOST
    return value is None or 0.0 < value <= _LONGEST_S


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and _bounded(value)


def _is_encodable(text: str) -> bool:
    try:
        # Bytes of a path or variable that are not UTF-8 arrive as surrogates.
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
