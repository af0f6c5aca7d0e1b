"""Options of `apples-run` for runs that must end whatever happens: attempts, checkpoints, going on from one.

Read and checked here, all problems at once; what they mean is decided in `apples.enacting`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from apples.run.resilience import Resilience

Command = TypeVar("Command", bound=Callable[..., Any])

#: Attempts where a run may lose a host and go on with others, and where there is one machine only.
MANY_HOSTS, ONE_HOST = 3, 1

#: Launchers that start ranks on more than one machine.
SPREADING = ("ssh", "slurm")

OPTIONS = (
    click.option(
        "--attempts",
        type=click.IntRange(min=1),
        help="Try so often when hosts are lost (default 3 over several hosts, 1 on this machine).",
    ),
    click.option(
        "--checkpoint",
        metavar="FILE|auto|off",
        help="Keep what is done in FILE, or in one of ours that goes at the end (auto, the default over ssh).",
    ),
    click.option(
        "--checkpoint-every",
        metavar="auto|N|TIME",
        help="Each N iterations, each 30s or 5m; auto: as costs and failures make it best.",
    ),
    click.option(
        "--mtbf", metavar="TIME", help="Mean time between failures of one host (default: from past runs)."
    ),
    click.option("--resume", is_flag=True, help="Go on from what --checkpoint FILE holds, with a new plan."),
)


def with_resilience(command: Command) -> Command:
    """The command with these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def read(options: Mapping[str, Any], settings: Mapping[str, str]) -> Resilience:
    """What the user wants of a run that does not end well; raises `ConfigError` with every problem.

    settings : the application's own, of which `checkpoint` and `checkpoint_every` keep their meaning
    """
    from apples.errors import ConfigError
    from apples.run.resilience import Resilience
    from nws.client import state_dir

    problems: list[str] = []
    simulated = bool(options["mock"] or options["scenario"] is not None)
    spreading = simulated or options["launcher"] in SPREADING
    needed = options["adapt"] == "hosts"
    attempts = options["attempts"] or (MANY_HOSTS if spreading else ONE_HOST)
    own_file = settings.get("checkpoint")
    asked = options["checkpoint"]
    problems += _contradictions(options, settings, simulated=simulated)
    rule, every, every_s = _interval(options["checkpoint_every"], problems)
    mtbf_s = _positive(options["mtbf"], "--mtbf", problems)
    own = False
    file: Path | None = None
    if own_file is not None:
        file = Path(own_file)
        if options["launcher"] not in SPREADING:
            # Of many hosts each says for itself whether it can write there.
            problems += _place(file, f"-s checkpoint={own_file}")
        if options["checkpoint_every"] is None:
            every_text = settings.get("checkpoint_every", "")
            rule, every = "iterations", int(every_text) if every_text.isdigit() else None
    elif asked not in (None, "auto", "off"):
        file = Path(asked)
        problems += _place(file, f"--checkpoint {file}")
    elif asked == "auto" or (asked is None and (attempts > 1 or needed)):
        own = True
        file = state_dir() / "checkpoints" / f"{_name()}.ckpt"
        if not simulated:
            problems += _made(file.parent)
    if problems:
        raise ConfigError(problems)
    return Resilience(
        attempts=attempts,
        file=None if file is None else file.absolute(),
        own=own,
        needed=needed,
        simulated=simulated,
        resume=options["resume"],
        rule=rule,
        every=every,
        every_s=every_s,
        mtbf_s=mtbf_s,
    )


def _contradictions(options: Mapping[str, Any], settings: Mapping[str, str], *, simulated: bool) -> list[str]:
    asked, found = options["checkpoint"], []
    named = asked not in (None, "auto", "off")
    if asked is not None and "checkpoint" in settings:
        found.append(
            f"--checkpoint {asked} and -s checkpoint={settings['checkpoint']} exclude each other; give one of them"
        )
    if simulated and named:
        found.append(f"--checkpoint {asked}: the mock grid writes no files; give auto or off")
    if options["resume"] and not named and "checkpoint" not in settings:
        found.append("--resume: needs --checkpoint FILE, what to go on from")
    if options["resume"] and simulated:
        found.append("--resume is for real runs; leave it out on the mock grid")
    if asked == "off":
        found += [
            f"--{name.replace('_', '-')} {options[name]}: there are no checkpoints with --checkpoint off"
            for name in ("checkpoint_every", "mtbf")
            if options[name] is not None
        ]
    if options["checkpoint_every"] is not None and "checkpoint_every" in settings:
        found.append("--checkpoint-every and -s checkpoint_every exclude each other; give one of them")
    return found


def _interval(text: str | None, problems: list[str]) -> tuple[str, int | None, float | None]:
    """Rule, iterations, seconds."""
    if text is None or text == "auto":
        return "young", None, None
    if text.isdigit():
        if int(text) == 0:
            problems.append("--checkpoint-every 0: expected 1 iteration or more")
        return "iterations", int(text), None
    return "time", None, _positive(text, "--checkpoint-every", problems)


def _positive(text: str | None, flag: str, problems: list[str]) -> float | None:
    from nws.base.durations import parse_duration
    from nws.base.errors import ConfigError

    if text is None:
        return None
    try:
        seconds = parse_duration(text, what=flag)
    except ConfigError as error:
        problems.extend(error.problems)
        return None
    if seconds <= 0:
        problems.append(f"{flag} {text}: expected more than 0 seconds")
    return seconds


def _place(file: Path, flag: str) -> list[str]:
    """What is wrong with a checkpoint's place here; other hosts are asked in their check."""
    directory = file.absolute().parent
    if file.is_dir():
        return [f"{flag}: is a directory; give a file"]
    if not directory.is_dir():
        return [f"{flag}: the directory {directory} does not exist; make it first"]
    if not os.access(directory, os.W_OK):
        return [f"{flag}: the directory {directory} may not be written to"]
    return []


def _made(directory: Path) -> list[str]:
    """Make the directory of our own checkpoints; why it could not be, if it could not."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [
            f"--checkpoint auto: {directory} cannot be made: {error.strerror}; give a file, off, or set APPLES_STATE"
        ]
    return []


def _name() -> str:
    """Of a checkpoint of ours: when it was begun, and nobody else's."""
    import time

    from apples.learning.history import new_id

    return new_id(time.time())
