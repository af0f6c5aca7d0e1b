"""Checksums, so that damage is noticed and not believed: last member of a JSON object, column of a row in SQLite.

The checksum of an object is CRC-32 over the object without it. An object that ends otherwise was written by hand or by
another program and is taken as it is.
"""

import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from nws.base.files import make_private, read_regular, write_whole
from nws.base.paths import state_dir

#: The last member of a sealed object; any bytes between the quotes, so that a damaged one is recognised.
_SEAL = re.compile(rb', "(.{5})": "(.{8})"\}\s*\Z', re.DOTALL)
_NAME = b"crc32"
_BLOB = (bytes, memoryview)
#: Length of the key of fingerprints, and attempts to read it while another process writes it.
_KEY_BYTES, _ATTEMPTS = 32, 50


def crc(kind: str, *values: object, data: object = b"") -> int:
    """Return the checksum of a row of a table: its plain values, key included, and its blob; -1 if that is none."""
    if not isinstance(data, _BLOB):
        return -1
    # repr is exact, and distinguishes 1, 1.0 and "1" (not numpy's numbers); SQLite keeps no sign of zero
    plain = [float(value) + 0.0 if isinstance(value, float) else value for value in values]
    return zlib.crc32(data, zlib.crc32(f"{kind}{plain}".encode()))


def fingerprint(text: str) -> str:
    """Return 32 hexadecimal digits that differ for different texts, to store in place of a text with secrets.

    They depend on a random key of the state directory, without which guessed texts cannot be tried.
    """
    data = text.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, key=_key(state_dir()), digest_size=16).hexdigest()


@cache
def _key(directory: Path) -> bytes:
    """Return the key of a state directory, made at first use; one for this process if it cannot be kept."""
    path = directory / "fingerprints.key"
    with suppress(OSError):
        if not path.exists():
            make_private(directory)
            # of two first processes one makes it
            with suppress(FileExistsError), open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(os.urandom(_KEY_BYTES))
        for _ in range(_ATTEMPTS):
            if len(key := read_regular(path, _KEY_BYTES)) == _KEY_BYTES:
                return key
            time.sleep(0.02)
        # its writer was killed
        write_whole(path, os.urandom(_KEY_BYTES), mode=0o600)
        return read_regular(path, _KEY_BYTES)
    return os.urandom(_KEY_BYTES)


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
