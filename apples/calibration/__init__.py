"""What finished runs teach: the overhead of the performance model, and how far the benchmarks are off.

Pure. Newer runs count more, and runs disturbed by load that nobody forecast lose their weight. Where benchmarks are
kept: `apples.benchmarkstore`; where they are measured: `apples.costing`.
"""

from apples.calibration.corrections import Correction, correct, corrections, outdated
from apples.calibration.overhead import fit_overhead, startup_overhead
from apples.calibration.runs import HALF_LIFE_RUNS, Lessons
from apples.calibration.teaching import taught

__all__ = [
    "HALF_LIFE_RUNS",
    "Correction",
    "Lessons",
    "correct",
    "corrections",
    "fit_overhead",
    "outdated",
    "startup_overhead",
    "taught",
]
