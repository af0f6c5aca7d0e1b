"""What native libraries print never reaches standard output, and what Python prints around it does."""

import ctypes
import os
import subprocess
import sys

from nws.base.native_output import native_output_discarded


def test_native_output_is_discarded(capfd):
    print("before")
    with native_output_discarded():
        os.write(1, b"written\n")
        ctypes.CDLL(None).puts(b"buffered by C")
    print("after")
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert err == ""


def test_native_output_with_stdout_closed_runs_the_block(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from nws.base.native_output import native_output_discarded\n"
        "with native_output_discarded():\n"
        f"    Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    subprocess.run(["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, program], check=True)
    assert (tmp_path / "ran").exists()
