"""Real processes killed at random moments: nothing that was acknowledged is lost, nothing is there twice."""

import random
import signal
import subprocess
import sys
import textwrap

import pytest

from nws.memory import Memory
from nws.series import Series
from tests.transcripts import text_of

HOUR = 3600.0
PER_STEP = 24

# Each step is one delivery of a numbered stream, four minutes of measured time after the one before, so that hours
# close all the while. What is acknowledged is printed; a new process asks where to go on.
WRITER = textwrap.dedent(text_of("nws/memory/crashes_writer.txt"))


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_it_keeps_what_it_acknowledged_once(path, seed):
    chance = random.Random(seed)
    acknowledged = 0
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(path), str(PER_STEP)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            for _ in range(chance.randint(1, 60)):
                acknowledged = int(writer.stdout.readline())
            # somewhere within the steps that follow
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(timeout=0.02 * chance.random())
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                # the last line may have been cut short
                if line.endswith("\n"):
                    acknowledged = int(line)
    with Memory(path, clock=lambda: 1.8e9) as memory:
        found = [memory.samples(Series.parse(f"cpu.new@h{i}")) for i in range(PER_STEP)]
        assert [s.samples for s in memory.summaries()] == [len(found[0])] * PER_STEP
    steps = len(found[0])
    assert steps * PER_STEP >= acknowledged > 0
    for samples in found:
        assert list(samples.times) == [1.8e9 + 240.0 * step for step in range(steps)]
        assert list(samples.values) == [float(PER_STEP * step) for step in range(steps)]
