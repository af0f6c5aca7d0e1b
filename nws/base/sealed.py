"""JSON objects with a checksum as their last member, so that a damaged file is noticed and not believed.

The checksum is CRC-32 over the object without it. An object that ends otherwise was written by hand or by another
program and is taken as it is.
"""

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

#: The last member of a sealed object; any bytes between the quotes, so that a damaged one is recognised.
_SEAL = re.compile(rb', "(.{5})": "(.{8})"\}\s*\Z', re.DOTALL)
_NAME = b"crc32"


def seal(document: Mapping[str, Any]) -> str:
    """Return a JSON object, not empty, with its checksum; raise `ValueError` for NaN and infinities."""
    text = json.dumps(document, allow_nan=False)
    return f'{text[:-1]}, "{_NAME.decode()}": "{zlib.crc32(text.encode()):08x}"}}'


def unseal(data: bytes) -> Any:
    """Return the JSON value of a file without its checksum; raise `ValueError` if they disagree."""
    found = _SEAL.search(data)
    if found is None:
        return json.loads(data)
    body = data[: found.start()] + b"}"
    if (found[1], found[2]) != (_NAME, b"%08x" % zlib.crc32(body)):
        raise ValueError("its checksum does not match its content")
    return json.loads(body)
