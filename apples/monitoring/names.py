"""What a job may be called: its name stands in names of files, in environments and in lines of JSON, unquoted."""

from __future__ import annotations

import re

from apples.errors import ConfigError

#: Characters of the longest name.
LONGEST = 64
LEGAL = f"1 to {LONGEST} letters, digits, dots, underscores and dashes, but not '.' or '..'"

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST}}}", re.ASCII)


def check_job(job: str, *, what: str = "job") -> str:
    """The name, where it is a legal one of a job; raises `ConfigError`. what : how the message calls it"""
    if not _NAME.fullmatch(job) or job in (".", ".."):
        raise ConfigError(f"{what} {job!r}: expected {LEGAL}")
    return job
