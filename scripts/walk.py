"""Record what dry runs do: steps between modules, opens and listings of state files; with `--check`, hold them to bars.

    python scripts/walk.py [--check]

A move is a call of a function of this project from another module than the last such call; a step is a distinct pair
of modules. Counted are dry runs of heat on 32 rows in own state directories: planned from a weather service, the same
with 300 runs in the history, and planned from own sensors after one run and 20 on the mock grid. Each figure has a
bar; where it is not reached yet, `scripts/ratchets.json` has the value that it must not exceed. `--write` lowers
these values to those of today.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RATCHETS = ROOT / "scripts" / "ratchets.json"
PACKAGES = ("apples", "nws", "stencil_app")
DRY_RUN = ("32", "--app", "heat", "--dry-run", "--json")
MANY_RUNS = 300
MOCK_RUNS = 20
#: Flag of code objects of functions; bodies of modules and classes lack it.
CO_OPTIMIZED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Counts of one dry run. opens : of all state files.  repeats : opens of the file that is opened most often"""

    steps: int
    moves: int
    opens: int
    repeats: int
    listings: int


class Recorder:
    """Counts the calls between modules and the accesses to a state directory while it is installed."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._modules: dict[str, str | None] = {}
        self._last: str | None = None
        self._steps: set[tuple[str, str]] = set()
        self._opens: dict[str, int] = {}
        self._moves = self._listings = 0

    def on_call(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call of a function; for `sys.setprofile`."""
        if event != "call" or not frame.f_code.co_flags & CO_OPTIMIZED:
            return
        here = self._module(frame.f_code)
        if here is None or here == self._last:
            return
        if self._last is not None:
            self._moves += 1
            self._steps.add((self._last, here))
        self._last = here

    def on_audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count an open or a listing below the state directory; for `sys.addaudithook`."""
        path = str(arguments[0]) if arguments else ""
        if not path.startswith(self._state):
            return
        if event in ("open", "sqlite3.connect"):
            self._opens[path] = self._opens.get(path, 0) + 1
        elif event in ("os.listdir", "os.scandir"):
            self._listings += 1

    def _module(self, code: CodeType) -> str | None:
        file = code.co_filename
        if file not in self._modules:
            parts = Path(file).parts
            ours = next((i for i, part in enumerate(parts) if part in PACKAGES), None)
            inside = ours is not None and (file.startswith(str(ROOT)) or "site-packages" in parts)
            self._modules[file] = "/".join(parts[ours:]) if inside else None
        return self._modules[file]

    def walk(self) -> Walk:
        """Return the counts."""
        opens = self._opens.values()
        return Walk(
            steps=len(self._steps),
            moves=self._moves,
            opens=sum(opens),
            repeats=max(opens, default=0),
            listings=self._listings,
        )


def record(arguments: list[str]) -> None:
    """Run `apples-run` with these arguments in this process and print the counts."""
    from apples.cli.run import main as apples_run

    recorder = Recorder(os.environ["APPLES_STATE"])
    sys.argv = ["apples-run", *arguments]
    sys.addaudithook(recorder.on_audit)
    sys.setprofile(recorder.on_call)
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        apples_run()
    sys.setprofile(None)
    print(json.dumps(asdict(recorder.walk())))


def recorded(environment: dict[str, str], *more: str) -> Walk:
    """Return the counts of a dry run in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--record", *DRY_RUN, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return Walk(**json.loads(done.stdout))


def command(environment: dict[str, str], *words: str) -> str:
    """Run one of the project's commands and return its output; end with its messages if it fails."""
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run([program, *words[1:]], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def repeat_runs(state: Path, times: int) -> None:
    """Store the newest run of a history that many times more, each with an id of its own."""
    from apples.costs.store import History, new_id

    history = History(state / "history.db")
    newest = history.records()[-1]
    for number in range(times):
        history.append(replace(newest, id=new_id(newest.attempts[-1].started_at + number)))
    history.close()


def walks() -> dict[str, Walk]:
    """Return the counts of all dry runs by name."""
    with tempfile.TemporaryDirectory(prefix="apples-walk-") as directory:
        served, sensed = (
            {**os.environ, "APPLES_STATE": f"{directory}/{name}", "APPLES_POLICY": "none"}
            for name in ("served", "sensed")
        )
        started = command(served, "nws", "server", "--listen", "127.0.0.1:0", "--detach")
        match = re.search(r"http://[\d.]+:\d+", started)
        if match is None:
            raise SystemExit(f"nws server names no address:\n{started}")
        weather = ("--nws", match[0])
        try:
            command(served, "nws", "sensor", "--server", match[0], "--detach")
            command(served, "apples-run", "32", "--app", "heat", *weather)
            few = recorded(served, *weather)
            repeat_runs(Path(served["APPLES_STATE"]), MANY_RUNS)
            many = recorded(served, *weather)
        finally:
            command(served, "nws", "sensor", "--stop")
            command(served, "nws", "server", "--stop")
        command(sensed, "apples-run", "32", "--app", "heat")
        command(sensed, "apples-run", "200", "--mock")
        repeat_runs(Path(sensed["APPLES_STATE"]), MOCK_RUNS - 1)
        return {"weather service": few, f"{MANY_RUNS} runs": many, "own sensors": recorded(sensed)}


#: Figure → bar, by dry run.
BARS = {
    "weather service": {"steps": 150, "moves": 500, "repeats": 1, "listings": 2},
    f"{MANY_RUNS} runs": {"opens": 12},
    "own sensors": {"steps": 230, "moves": 1200, "repeats": 2, "listings": 4},
}


def main(arguments: list[str]) -> int:
    """Print one line per figure; return the exit code."""
    if arguments[:1] == ["--record"]:
        record(arguments[1:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure got worse")
    parser.add_argument("--write", action="store_true", help="lower the ratchets to the values of today")
    options = parser.parse_args(arguments)
    ratchets = json.loads(RATCHETS.read_text(encoding="utf-8"))
    worse = 0
    for name, walk in walks().items():
        for figure, value in asdict(walk).items():
            title, bar = f"dry run, {name}: {figure}", BARS[name].get(figure)
            limit = ratchets.get(title, bar)
            reached = bar is None or value <= bar
            worse += not reached and (limit is None or value > limit)
            state = (
                ""
                if reached
                else f"  not yet, at most {limit} today"
                if value <= limit
                else f"  WORSE than {limit}"
            )
            print(f"{title:44} {value:6}{'' if bar is None else f'  at most {bar}'}{state}")
            if options.write:
                ratchets = {k: v for k, v in ratchets.items() if k != title} | (
                    {} if reached else {title: value}
                )
    if options.write:
        RATCHETS.write_text(json.dumps(ratchets, indent=2) + "\n", encoding="utf-8")
    return 1 if worse and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
