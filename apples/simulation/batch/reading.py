"""Traces from files, plain or compressed, known by their content: Standard Workload Format or sacct's output."""

import bz2
import gzip
import io
import lzma
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from apples.errors import ConfigError
from apples.simulation.batch.sacct import COLUMNS, is_header, parse_sacct, sacct_command
from apples.simulation.batch.swf import parse_swf
from apples.simulation.batch.trace import Trace
from nws.base.program import ProgramFailed, output_of

#: First bytes of a file → what opens it.
_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
#: First bytes of formats that the standard library of Python 3.11 cannot read → program that can.
_FOREIGN = {b"\x28\xb5\x2f\xfd": "unzstd", b"PK\x03\x04": "unzip", b"\x1f\x9d": "uncompress"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
#: Lines in which the header of sacct is looked for; modules and profiles print before it.
_PREAMBLE = 200
#: Characters of the longest line; a longer one is read in parts, none of which is a job.
_LONGEST_LINE = 1 << 16
#: Characters of a compressed log once it is expanded, more than of any published one; a small file may expand to any
#: length.
MOST_EXPANDED = 1 << 30


def read_trace(path: Path) -> Trace:
    """Return the jobs of a file; raise `ConfigError` if it cannot be read or has no job that ran."""
    try:
        with _opened(path) as file:
            return _parsed(_lines(file), path.name)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{path}: cannot be read ({reason}); give a log in Standard Workload Format or of sacct, plain or "
            "compressed by gzip, xz or bzip2"
        ) from error


def sacct_lines(since: str, columns: Sequence[str] = COLUMNS) -> list[str]:
    """Return this site's job history, as `sacct` prints it; raise `ConfigError` if it fails or is not there.

    Args:
        since: as in sacct's --starttime
        columns: of the table
    """
    # Variables of the user (SACCT_FORMAT, SLURM_TIME_FORMAT) must not change the output that is parsed.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SACCT_", "SLURM_TIME_FORMAT"))}
    try:
        return output_of(sacct_command(since, columns), environment=environment).splitlines()
    except ProgramFailed as failed:
        raise ConfigError(f"sacct failed with {failed.reason} ({failed.last_line})") from None


def _parsed(lines: Iterator[str], name: str) -> Trace:
    first = list(islice(lines, _PREAMBLE))
    if any("\0" in line for line in first):
        raise ConfigError(f"{name}: it is an archive or another binary file; unpack it first")
    header = next((number for number, line in enumerate(first) if is_header(line)), None)
    if header is not None:
        return parse_sacct(
            chain(first[header:], lines), name, before=sum(map(bool, map(str.strip, first[:header])))
        )
    return parse_swf(chain(first, lines), name)


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines; raise `OSError` for a compressed file that expands to too many characters."""
    left = math.inf if isinstance(file.buffer, io.BufferedReader) else MOST_EXPANDED  # type: ignore[attr-defined]
    while line := file.readline(_LONGEST_LINE):
        left -= len(line)
        if left < 0:
            raise OSError(f"it expands to more than {MOST_EXPANDED} characters; expand and cut it first")
        yield line


def _opened(path: Path) -> IO[str]:
    if path.exists() and not path.is_file() and not path.is_dir():
        # Opening a named pipe without a writer would wait for ever.
        raise OSError("it is no regular file")
    with path.open("rb") as file:
        start = file.read(8)
    for magic, program in _FOREIGN.items():
        if start.startswith(magic):
            raise OSError(f"it is compressed; expand it with {program} first")
    binary = next((opener for magic, opener in _COMPRESSED.items() if start.startswith(magic)), io.open)(
        path, "rb"
    )
    encoding = "utf-16" if start.startswith(_UTF_16) else "utf-8-sig"
    return io.TextIOWrapper(binary, encoding=encoding, errors="replace")
