"""Reasons why the kernel does not start a file, beyond its own word for it. Sent to hosts, so it imports `os` alone.

A script whose interpreter is missing is "No such file or directory", as is a file that is missing itself.
"""

from __future__ import annotations

import os

#: Longest first line of which the kernel takes the interpreter, bytes.
_FIRST_LINE = 256
#: First bytes of a file of a Windows editor.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def fault(path: str) -> str | None:
    """Return why this file cannot be executed, with the remedy; None without a reason that its first line shows."""
    try:
        with open(path, "rb") as file:
            first = file.readline(_FIRST_LINE)
    except OSError:
        return None
    if first.startswith(_BYTE_ORDER_MARK + b"#!"):
        return f"it begins with a byte order mark before #!, as Windows editors write (dos2unix {path})"
    if not first.startswith(b"#!"):
        text = first.strip() and first.isascii() and first.decode().strip().isprintable()
        return "its first line names no interpreter; begin it with #!/bin/sh or another" if text else None
    # not split(), which would take the carriage return away
    interpreter, *words = [w for w in first[2:].rstrip(b"\n").replace(b"\t", b" ").split(b" ") if w] or [b"/"]
    if os.path.basename(interpreter) == b"env" and words:
        interpreter = words[-1] if words[-1].endswith(b"\r") else interpreter
    elif os.path.exists(interpreter):
        return None
    name = repr(interpreter.decode(errors="replace"))
    missing = f"its first line names the interpreter {name}, which is not there"
    if interpreter.endswith(b"\r"):
        return f"{missing}; the file has Windows line ends (dos2unix {path})"
    return None if os.path.exists(interpreter) else missing
