"""Validation of a submission: a line of the socket becomes a `Submission`, or an error with all problems."""

from __future__ import annotations

import math
import os
import pwd
from collections.abc import Callable
from typing import Any

from apples.errors import ConfigError
from apples.livequeue.clock import rounded_up
from apples.livequeue.records import Submission

_LONGEST_NAME = 200


def read_submission(document: object, uid: int, processors: int) -> Submission:
    """Return the validated submission.

    Args:
        document: the argument of the request.
        uid: user of the client, reported by the kernel.
        processors: processors of the machine.

    Raises:
        ConfigError: values are not legal; the message has every problem.
    """
    if not isinstance(document, dict):
        raise ConfigError(
            "submit: expected one object with command, directory, environment, procs, request_s"
        )
    problems: list[str] = []

    def take(name: str, valid: Callable[[Any], bool], legal: str) -> Any:
        value = document.get(name)
        if not valid(value):
            problems.append(f"{name} {_short(value)}: {legal}")
        return value

    token = take("token", _name, "a word of at most 200 characters is legal")
    name = take("name", _name, "a name of at most 200 printable characters is legal")
    project = take("project", lambda p: p == "" or _name(p), "a name of at most 200 characters is legal")
    command = take("command", _words, "a program and its arguments are legal")
    directory = take("directory", _path, "an absolute path is legal")
    output = take("output", _path, "an absolute path is legal")
    error = take("error", _path, "an absolute path is legal")
    environment = take("environment", _variables, "variables by name are legal")
    umask = take("umask", lambda u: _whole(u) and 0 <= u <= 0o777, "a mask of file modes is legal")
    procs = take(
        "procs",
        lambda n: _whole(n) and 1 <= n <= processors,
        f"this machine has {processors} processors; 1 to {processors} are legal",
    )
    request_s = take("request_s", _span, "a time above 0 s is legal")
    model_s = take("model_s", lambda s: s is None or _span(s), "a time above 0 s is legal, or none")
    account = _account(uid)
    if account is None:
        problems.append(f"user {uid} has no entry on this host, so no job can run as that user")
    if problems or account is None:
        raise ConfigError(problems)
    return Submission(
        token=token,
        uid=uid,
        gid=account[1],
        user=account[0],
        project=project,
        name=name,
        command=tuple(command),
        directory=directory,
        environment=environment,
        umask=umask,
        output=output,
        error=error,
        procs=procs,
        request_s=rounded_up(float(request_s)),
        model_s=None if model_s is None else float(model_s),
    )


def _account(uid: int) -> tuple[str, int] | None:
    """Return (name, group) of a user, or None without an entry. This process's user needs none, as in containers."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return (str(uid), os.getgid()) if uid == os.geteuid() else None
    return entry.pw_name, entry.pw_gid


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _span(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < math.inf


def _name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= _LONGEST_NAME and value.isprintable()


def _words(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(w, str) and "\0" not in w for w in value)
    )


def _path(value: object) -> bool:
    return isinstance(value, str) and value.startswith("/") and "\0" not in value


def _variables(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(v, str) and "=" not in k and k and "\0" not in k + v for k, v in value.items()
    )
