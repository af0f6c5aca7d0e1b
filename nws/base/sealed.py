"""Checksums, so that damage is noticed and not believed: last member of a JSON object, column of a row in SQLite.

The checksum of an object is CRC-32 over the object without it. An object that ends otherwise was written by hand or by
another program and is taken as it is.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

#: The last member of a sealed object; any bytes between the quotes, so that a damaged one is recognised.
_SEAL = re.compile(rb', "(.{5})": "(.{8})"\}\s*\Z', re.DOTALL)
_NAME = b"crc32"
_BLOB = (bytes, memoryview)


def crc(kind: str, *values: object, data: object = b"") -> int:
    """Return the checksum of a row of a table: its plain values, key included, and its blob; -1 if that is none."""
    if not isinstance(data, _BLOB):
        return -1
    # repr is exact, and distinguishes 1, 1.0 and "1" (not numpy's numbers); SQLite keeps no sign of zero
    plain = [float(value) + 0.0 if isinstance(value, float) else value for value in values]
    return zlib.crc32(data, zlib.crc32(f"{kind}{plain}".encode()))


def fingerprint(text: str) -> str:
    """Return 32 hexadecimal digits that differ for different texts, to store in place of a text with secrets."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def fingerprints(values: Mapping[str, str]) -> dict[str, str]:
    """Return the names of variables or options with the fingerprints of their values, in place of secret values."""
    return {name: fingerprint(f"{name}={text}") for name, text in values.items()}


def seal(document: Mapping[str, Any]) -> str:
    """Return a JSON object, not empty, with its checksum; raise `ValueError` for NaN and infinities."""
    text = json.dumps(document, allow_nan=False)
    return f'{text[:-1]}, "{_NAME.decode()}": "{zlib.crc32(text.encode()):08x}"}}'


def unseal(data: bytes) -> Any:
    """Return the JSON value of a file without its checksum; raise `ValueError` if they disagree."""
    seal = _SEAL.search(data)
    if seal is None:
        return json.loads(data)
    body = data[: seal.start()] + b"}"
    if (seal[1], seal[2]) != (_NAME, b"%08x" % zlib.crc32(body)):
        raise ValueError("its checksum does not match its content")
    return json.loads(body)
