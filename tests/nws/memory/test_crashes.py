"""Real processes killed at random moments: nothing that was acknowledged is lost, nothing is there twice."""

import random
import signal
import subprocess
import sys
import textwrap

import pytest

from nws.memory import Memory
from nws.series import Series

HOUR = 3600.0
PER_STEP = 24

# Each step is one delivery of a numbered stream, four minutes of measured time after the one before, so that hours
# close all the while. What is acknowledged is printed; a new process asks where to go on.
WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    import numpy as np
    from nws.memory import Delivery, Memory
    path, per_step = Path(sys.argv[1]), int(sys.argv[2])
    now = [1.8e9]
    with Memory(path, clock=lambda: now[0]) as memory:
        ids = memory.series_ids([f"cpu.new@h{i}" for i in range(per_step)])
        def deliver(first, n):
            return memory.deliver([Delivery(
                source="s/1", first=first, ids=ids[:n], times=np.full(n, now[0]), values=np.full(n, float(first)),
                received=now[0],
            )])[0].next
        number = deliver(0, 0)
        # the step before is sent once more, as by a sender that never heard the answer
        number = max(number - per_step, 0)
        while True:
            now[0] = 1.8e9 + 240.0 * (number // per_step)
            number = deliver(number, per_step)
            print(number, flush=True)
            memory.tend(budget_s=0.002)
""")


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
