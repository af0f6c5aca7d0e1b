"""No request waits for the compiler."""

import subprocess
import sys

from tests.transcripts import text_of

PROGRAM = text_of("nws/server/warm_up_program.txt")


def test_requests_use_only_kernels_that_are_compiled_before_the_server_listens():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("set()\n", "")
