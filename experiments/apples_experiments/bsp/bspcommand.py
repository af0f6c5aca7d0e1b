"""The command `stencil-app bsp`: words in, one report on stdout by rank 0, each error once.

Settings of a synthetic job, checked together: every problem at once, without side effects.

Pure. Where seconds are given, the number of iterations follows from them: as many as the slowest rank computes in that
time when it is alone, so that the amount of work is the same however busy the machine is.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from apples_experiments.bsp.syntheticjob import BspSettings, run, text_lines
from stencil_app.errors import UsageError
from stencil_app.options import Option, Value, option_command, parameter, parse_all

T = TypeVar("T")

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(us|ms|s|)", re.ASCII)
_LEGAL_SPAN = "a time above 0 and at most an hour, such as 250us, 1ms or 0.5s"

MESSAGE = Option(
    name="message",
    default="8",
    at_least=0,
    at_most=2**30,
    help="bytes to each neighbour, where the pattern has them",
)
PATTERN = Option(
    name="pattern",
    default="ring",
    choices=("ring", "barrier", "none"),
    help="ring: exchange with both neighbours; barrier: of all ranks; none: no communication",
)
WORK = Option(
    name="work",
    default="cpu",
    choices=("cpu", "spin"),
    help="cpu: a fixed amount of arithmetic; spin: until the rank's CPU clock has advanced so far",
)
ITERATIONS = Option(name="iterations", default="1000", at_least=1, help="times to compute and communicate")
RATE = Option(
    name="rate",
    default="1",
    type=float,
    above=0.0,
    help="with --work cpu: arithmetic of so many turns a second, as a run on quiet cores reported it",
)
NUMBERS = (MESSAGE, PATTERN, WORK, ITERATIONS, RATE)

#: Options that are no number and no choice, with their defaults and help.
TEXTS = {
    "granularity": ("1ms", f"computing of a rank in an iteration, {_LEGAL_SPAN}"),
    "imbalance": ("1", "factors of the granularity by rank, repeated over the ranks: 1,2"),
    "seconds": (None, "instead of --iterations: as many as the slowest rank, alone, needs this time for"),
}


def parse_span(text: str) -> float:
    """Return the seconds of `250us`, `1ms`, `0.5s` or `2`; raises `ValueError` with the legal forms."""
    match = _SPAN.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else math.nan
    if not 0.0 < seconds <= 3600.0:
        raise ValueError(f"got {text!r}; legal is {_LEGAL_SPAN}")
    return seconds


def parse_imbalance(text: str) -> tuple[float, ...]:
    """Return the factors of `1,2`; raises `ValueError` with the legal forms."""
    try:
        factors = tuple(float(word) for word in text.split(","))
    except ValueError:
        factors = ()
    if not factors or not all(0.0 < factor <= 1000.0 for factor in factors):
        raise ValueError(f"got {text!r}; legal are numbers above 0 and at most 1000, joined by commas: 1,2")
    return factors


def check(texts: Mapping[str, str | None], strays: list[str]) -> BspSettings:
    """Return the settings of a command line; raises `UsageError` with every problem.

    texts : texts by option name; None for options not given.  strays : problems found before
    """
    numbers, problems = parse_all(NUMBERS, texts)
    problems = [*strays, *problems]
    granularity_s = _read("granularity", parse_span, texts, problems) or 1.0
    imbalance = _read("imbalance", parse_imbalance, texts, problems) or (1.0,)
    seconds = _read("seconds", parse_span, texts, problems)
    problems += _combinations(texts)
    if problems:
        raise UsageError(problems)
    return BspSettings(
        granularity_s=granularity_s,
        imbalance=imbalance,
        iterations=_iterations(numbers, seconds, granularity_s * max(imbalance)),
        pattern=str(numbers["pattern"]),
        message_bytes=int(numbers["message"]),
        work=str(numbers["work"]),
        rate=None if texts.get("rate") is None else float(numbers["rate"]),
    )


def _read(
    name: str, parse: Callable[[str], T], texts: Mapping[str, str | None], problems: list[str]
) -> T | None:
    """Return the parsed value or the default; None if both are missing, or if `problems` got the reason."""
    text = texts.get(name)
    text = TEXTS[name][0] if text is None else text
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        problems.append(f"--{name}: {error}")
        return None


def _iterations(numbers: Mapping[str, Value], seconds: float | None, slowest_s: float) -> int:
    return int(numbers["iterations"]) if seconds is None else max(1, round(seconds / slowest_s))


def _combinations(texts: Mapping[str, str | None]) -> list[str]:
    problems = []
    if texts.get("seconds") is not None and texts.get("iterations") is not None:
        problems.append("--seconds and --iterations exclude each other; give one of them")
    if texts.get("rate") is not None and texts.get("work") == "spin":
        problems.append("--rate: not with --work spin, which goes by the CPU clock; leave it out")
    if texts.get("message") is not None and texts.get("pattern") in ("barrier", "none"):
        problems.append(f"--message: --pattern {texts['pattern']} sends no messages; leave it out")
    return problems


def _run(values: dict[str, Any], strays: list[str]) -> None:
    from stencil_app.running.mpi import aborting, say, world

    as_json, comm = values.pop("as_json"), world()
    with aborting(comm):
        settings = check(values, strays)

        document = run(comm, settings)
        say(comm, json.dumps(document) if as_json else "\n".join(text_lines(document)), "report")


BSP = option_command(
    "bsp",
    [
        *(
            click.Option(
                [f"--{name}"], metavar="TEXT", help=text + (f"  [default {default}]" if default else "")
            )
            for name, (default, text) in TEXTS.items()
        ),
        *(parameter(replace(o, default="measured") if o.name == "rate" else o) for o in NUMBERS),
        click.Option(["--json", "as_json"], is_flag=True, help="one JSON document on stdout"),
    ],
    _run,
    "Synthetic job: compute, exchange with the neighbours, again. For experiments with schedulers.",
)
