"""Takes a testbed down when the process that brought it up is gone, however it went.

    python warden.py NAME

Its standard input is a pipe whose other end only that process holds. By then everything may be down already; that
is no error.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(name: str) -> None:
    """Wait for the end of the input, then take the testbed down."""
    sys.stdin.buffer.read()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from testbed.grid import take_down

    take_down(name)


if __name__ == "__main__":
    main(sys.argv[1])
