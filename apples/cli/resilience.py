"""`--attempts`, `--checkpoint`, `--resume` and their like: read and checked, all problems at once."""

import os
from collections.abc import Mapping
from pathlib import Path

from apples.cli.conflicts import restarts_itself
from apples.cli.optiongroups import Problems
from apples.cli.runoptions import LaunchOptions, PoolOptions
from apples.run.request import Resilience
from nws.base.durations import parse_period
from nws.client import state_dir

#: Attempts of a run that can continue without a lost host, and of a run on one machine.
MANY_HOSTS, ONE_HOST = 3, 1


def read_resilience(
    pool: PoolOptions, options: LaunchOptions, settings: Mapping[str, str], template: object
) -> Resilience:
    """Return attempts and checkpoints of the run; raise `ConfigError` with every problem.

    settings : the application's own, of which `checkpoint` and `checkpoint_every` keep their meaning
    template : of the program, None for one that could not be read
    """
    needed = options.adapt == "hosts"
    attempts = options.attempts or (MANY_HOSTS if pool.simulated or pool.several_hosts else ONE_HOST)
    restarts = restarts_itself(template)
    problems = Problems(_conflicts(options, settings, simulated=pool.simulated, restarts=restarts))
    rule, every, every_s = _interval(options.checkpoint_every, problems)
    mtbf = options.mtbf
    mtbf_s = None if mtbf is None else problems.collect(lambda: parse_period(mtbf, what="--mtbf"))
    temporary, file = False, None
    if "checkpoint" in settings:
        file = Path(settings["checkpoint"])
        if not pool.several_hosts:
            # Of several hosts, each checks for itself whether it can write there.
            problems += _unwritable(file, f"-s checkpoint={file}")
        if options.checkpoint_every is None:
            every_text = settings.get("checkpoint_every", "")
            rule, every = "iterations", int(every_text) if every_text.isdigit() else None
    elif options.checkpoint not in (None, "auto", "off"):
        file = Path(options.checkpoint)
        problems += _unwritable(file, f"--checkpoint {file}")
    elif options.checkpoint == "auto" or (options.checkpoint is None and (attempts > 1 or needed)):
        temporary, file = True, _temporary_file()
        if not pool.simulated:
            problems += _made(file.parent)
    problems.check()
    return Resilience(
        attempts=attempts,
        file=None if file is None else file.absolute(),
        own=temporary,
        needed=needed,
        simulated=pool.simulated,
        resume=options.resume,
        rule=rule,
        every=every,
        every_s=every_s,
        mtbf_s=mtbf_s,
    )


def _conflicts(
    options: LaunchOptions, settings: Mapping[str, str], *, simulated: bool, restarts: bool
) -> list[str]:
    asked, found = options.checkpoint, []
    named = asked not in (None, "auto", "off")
    if asked is not None and "checkpoint" in settings:
        found.append(
            f"--checkpoint {asked} and -s checkpoint={settings['checkpoint']} exclude each other; give one of them"
        )
    if simulated and named:
        found.append(f"--checkpoint {asked}: the mock grid writes no files; give auto or off")
    if options.resume and not named and not restarts and "checkpoint" not in settings:
        found.append("--resume: needs --checkpoint FILE, the checkpoint to continue from")
    if options.resume and simulated:
        found.append("--resume is for real runs; leave it out on the mock grid")
    if asked == "off":
        found += [
            f"--{name} {value}: there are no checkpoints with --checkpoint off"
            for name, value in (("checkpoint-every", options.checkpoint_every), ("mtbf", options.mtbf))
            if value is not None
        ]
    if options.checkpoint_every is not None and "checkpoint_every" in settings:
        found.append("--checkpoint-every and -s checkpoint_every exclude each other; give one of them")
    return found


def _interval(text: str | None, problems: Problems) -> tuple[str, int | None, float | None]:
    """Return the rule, its iterations and its seconds."""
    if text is None or text == "auto":
        return "young", None, None
    if text.isdigit():
        if int(text) == 0:
            problems.append("--checkpoint-every 0: expected 1 iteration or more")
        return "iterations", int(text), None
    return "time", None, problems.collect(lambda: parse_period(text, what="--checkpoint-every"))


def _unwritable(file: Path, flag: str) -> list[str]:
    """Return why a checkpoint cannot be written there on this machine; empty if it can."""
    directory = file.absolute().parent
    if file.is_dir():
        return [f"{flag}: is a directory; give a file"]
    if not directory.is_dir():
        return [f"{flag}: the directory {directory} does not exist; make it first"]
    if not os.access(directory, os.W_OK):
        return [f"{flag}: the directory {directory} may not be written to"]
    return []


def _made(directory: Path) -> list[str]:
    """Make the directory of temporary checkpoints; return why that failed, empty if it did not."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return [
            f"--checkpoint auto: {directory} cannot be made: {error.strerror}; give a file, off, or set APPLES_STATE"
        ]
    return []


def _temporary_file() -> Path:
    """Return the path of a new temporary checkpoint: its name is the time and a random part."""
    import time

    from apples.learning.history import new_id

    return state_dir() / "checkpoints" / f"{new_id(time.time())}.ckpt"
