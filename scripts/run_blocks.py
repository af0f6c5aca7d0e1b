"""Run the shell blocks of README and the tutorials, each as one script, the way a reader pastes it.

    python scripts/run_blocks.py [--list] [--checkout DIRECTORY] [PAGE ...]

Without pages: README.md and docs/tutorial*.md. Blocks are fenced with ```sh. They run in one clone of the last commit,
or in DIRECTORY where README's first line has been run already: a later block that makes `.venv` is not run again. The
blocks of a page run in order, with an empty home directory of the page; two pages run at a time, as blocks wait for
much, but only one of the blocks that name the same address. A block fails if one of its commands fails or if it leaves
a process behind. A block after `<!-- not run: REASON -->` is listed with the reason and not run, and so is one whose
commands are those of a block of an earlier page.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent

#: Variables of this process that a block gets, beside HOME: how the network and the package index are reached.
_PASSED = re.compile(r"PIP_.*|.*_proxy|.*_PROXY|SSL_CERT_.*|LANG|LC_.*|TERM|APPLES_DATA|OPENBLAS_.*")
#: A block may run so long, seconds.
_LIMIT_S = 900.0
#: Pages that run at the same time.
_PAGES = 2
#: How the block begins that makes the environment of all pages.
_MAKES_ENVIRONMENT = "python3 -m venv .venv "

#: A fixed address; one block at a time serves there.
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_IN_USE: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*?) -->\n)?^```sh\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A shell block: its page, line, commands, and the reason why it is not run (empty if it is)."""

    page: Path
    line: int
    text: str
    reason: str


def blocks_of(page: Path) -> list[Block]:
    """Return the shell blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, block.start("text")) + 1, block["text"], block["reason"] or "")
        for block in _BLOCK.finditer(text)
    ]


def without_repeats(pages: list[list[Block]]) -> list[list[Block]]:
    """Give each block whose commands an earlier page has, comments aside, the reason not to be run.

    Blocks that make the environment stay: which page comes to it first is not known.
    """
    first: dict[str, Block] = {}
    for blocks in pages:
        for number, block in enumerate(blocks):
            commands = re.sub(r"\s+#.*$", "", block.text, flags=re.MULTILINE)
            earlier = first.setdefault(commands, block)
            if earlier.page != block.page and not block.text.startswith(_MAKES_ENVIRONMENT):
                reason = f"{earlier.page.relative_to(ROOT)}:{earlier.line} has the same commands"
                blocks[number] = replace(block, reason=block.reason or reason)
    return pages


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a new user with an empty home directory.

    The directory for the user's daemons is beside it: a run of one page must not keep those of another in use.
    """
    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    python = Path(shutil.which("python3") or sys.executable).parent
    path = f"{python}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return passed | {
        "HOME": str(home),
        "PATH": path,
        "SHELL": "/bin/bash",
        "TMPDIR": str(home.parent / "tmp"),
        "XDG_RUNTIME_DIR": str(home.parent / "runtime"),
    }


def run(block: Block, checkout: Path, home: Path, output: IO[bytes]) -> str:
    """Run one block. Return an empty string, or what went wrong."""
    script = f"set -e -o pipefail\n{block.text}wait\n"
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=checkout,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        # A file, not a pipe: a service that outlives the block would keep a pipe open.
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        code = process.wait(_LIMIT_S)
        wrong = "" if code == 0 else f"exit code {code}"
    except subprocess.TimeoutExpired:
        wrong = f"not finished after {_LIMIT_S:g} s"
    left = processes_of(home)
    for number in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    if left and not wrong:
        wrong = f"left {len(left)} processes behind: {'; '.join(left.values())}"
    return wrong


def processes_of(home: Path) -> dict[int, str]:
    """Return the processes that have this home directory, with their commands, 10 seconds after the block ended.

    The daemons of a shared run end by themselves up to 5 seconds after it.
    """
    wanted = f"HOME={home}".encode()
    deadline = time.monotonic() + 10.0
    while True:
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if wanted in path.read_bytes().split(b"\0"):
                    words = path.with_name("cmdline").read_bytes().split(b"\0")
                    found[int(path.parent.name)] = b" ".join(words).decode(errors="replace").strip()
            except OSError:
                continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def run_page(blocks: list[Block], checkout: Path) -> list[str]:
    """Run the blocks of a page until one fails. Return one line per failure."""
    with tempfile.TemporaryDirectory(prefix="apples-blocks.") as directory:
        work = Path(directory)
        home = work / "home"
        home.mkdir()
        (work / "tmp").mkdir()
        (work / "runtime").mkdir(mode=0o700)
        for block in blocks:
            where = f"{block.page.relative_to(ROOT)}:{block.line}"
            reason = block.reason
            # Two pages may come here at once: the first makes the environment, the other waits for it.
            held = ExitStack()
            if block.text.startswith(_MAKES_ENVIRONMENT):
                held.enter_context(_IN_USE[_MAKES_ENVIRONMENT])
                if (checkout / ".venv").exists():
                    reason = reason or "the environment is there already"
            if reason:
                held.close()
                print(f"-- {where}: not run: {reason}", flush=True)
                continue
            with held, tempfile.TemporaryFile(dir=work) as output:
                for address in sorted(set(_ADDRESS.findall(block.text))):
                    held.enter_context(_IN_USE[address])
                begun = time.monotonic()
                wrong = run(block, checkout, home, output)
                output.seek(0)
                printed = output.read().decode(errors="replace")
            verdict = f"-- {where}: {wrong or 'passed'} ({time.monotonic() - begun:.0f} s)"
            print(f"-- {where}\n{block.text}{printed}{verdict}", flush=True)
            if wrong:
                # The blocks of a page build on each other.
                return [f"{where}: {wrong}"]
    return []


def main(arguments: list[str]) -> int:
    """Run or list the blocks; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the blocks and run none")
    parser.add_argument("--checkout", type=Path, help="directory to run in; a fresh clone without")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    files = [page.resolve() for page in options.pages]
    files = files or [ROOT / "README.md", *sorted((ROOT / "docs").glob("tutorial*.md"))]
    pages = without_repeats([blocks_of(page) for page in files])
    if options.list:
        for block in itertools.chain.from_iterable(pages):
            print(f"{block.page.relative_to(ROOT)}:{block.line}: {block.reason or 'run'}")
        return 0
    with tempfile.TemporaryDirectory(prefix="apples-blocks.") as directory:
        checkout = options.checkout or Path(directory) / "checkout"
        if not checkout.exists():
            subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, checkout], check=True)
        with ThreadPoolExecutor(_PAGES) as pool:
            failures = [
                line for lines in pool.map(run_page, pages, itertools.repeat(checkout)) for line in lines
            ]
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
