"""Traces from files, plain or gzipped. The first line decides between Standard Workload Format and sacct's output."""

import gzip
import zlib
from itertools import chain
from pathlib import Path
from typing import IO

from apples.errors import ConfigError
from apples.simulation.batch.sacct import is_sacct, parse_sacct
from apples.simulation.batch.swf import parse_swf
from apples.simulation.batch.trace import Trace


def read_trace(path: Path) -> Trace:
    """Return the jobs of a file; raise `ConfigError` if it cannot be read or has no job that ran."""
    try:
        with _opened(path) as lines:
            first = lines.readline()
            parse = parse_sacct if is_sacct(first) else parse_swf
            return parse(chain([first], lines), path.name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{path}: cannot be read ({reason}); give a log in Standard Workload Format or of sacct, plain or .gz"
        ) from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")
