"""The checksum of a row in an SQLite file."""

import zlib

_BLOB = (bytes, memoryview)


def crc(kind: str, *values: object, data: object = b"") -> int:
    """Return the checksum of a row of a table: its plain values, key included, and its blob; -1 if that is none."""
    if not isinstance(data, _BLOB):
        return -1
    # repr is exact, and distinguishes 1, 1.0 and "1" (not numpy's numbers); SQLite keeps no sign of zero
    plain = [float(value) + 0.0 if isinstance(value, float) else value for value in values]
    return zlib.crc32(data, zlib.crc32(f"{kind}{plain}".encode()))
