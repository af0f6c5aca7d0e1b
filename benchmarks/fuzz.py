"""Generated inputs for every listener and every state file: none may end a daemon, and each daemon answers afterwards.

    python benchmarks/fuzz.py [http] [queue] [node] [manager] [agent] [files] [--inputs 100000] [--seed 1]

The listeners are real daemon processes (`fuzz_listeners.py`), the state files are read by their own readers
(`fuzz_files.py`). Inputs come from the models of each listener: legal documents, documents with errors, and bytes with
errors. They arrive over several connections at a time, in pieces. After every few thousand, and at the end, the daemon
must answer a legal request within a second, and its log must have no traceback. Exit code 1 otherwise; the seed gives
the same inputs again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from fuzz_engine import Failed, attack
from fuzz_files import FILES, attack_file
from fuzz_listeners import LISTENERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", choices=[*LISTENERS, "files", []], help="default: all")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failures = 0
    for name in options.which or [*LISTENERS, "files"]:
        begun = time.monotonic()
        try:
            if name == "files":
                for file in FILES:
                    count = max(options.inputs // len(FILES), 1)
                    print(f"{file}: {attack_file(file, count, options.seed)}", flush=True)
                continue
            chance = random.Random(options.seed)
            with LISTENERS[name](chance) as listener:
                result = attack(listener, options.inputs, chance)
        except Failed as error:
            failures += 1
            print(f"{name}: FAILED, seed {options.seed}: {error}", flush=True)
            continue
        answers = ", ".join(f"{n} x {kind}: {answer}" for (kind, answer), n in sorted(result.answers.items()))
        print(
            f"{name}: {result.inputs} inputs in {time.monotonic() - begun:.0f} s, seed {options.seed}: 0 deaths, "
            f"0 tracebacks, slowest answer in between {result.slowest_s * 1e3:.0f} ms\n    {answers}",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
