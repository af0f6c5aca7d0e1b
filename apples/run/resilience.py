"""What the user asks for besides the run itself: attempts, and checkpoints to go on from. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """What the user asked for, beside the run itself.

    attempts : to be made at most.  file : of checkpoints, None for none.  own : it is ours, removed after success
    needed : the run may be ended to go on from it, so it is kept even where failures alone do not make it worth it
    simulated : nothing is written to the file.  resume : go on from what the file holds
    rule : how often: "young"; "iterations", each `every` of them, None for one at the end only; "time", each `every_s`
    mtbf_s : mean time between failures of one host, None for what the history says
    """

    attempts: int = 1
    file: Path | None = None
    own: bool = False
    needed: bool = False
    simulated: bool = False
    resume: bool = False
    rule: str = "young"
    every: int | None = None
    every_s: float | None = None
    mtbf_s: float | None = None
