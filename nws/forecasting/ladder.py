"""Layout of the forecasts by horizon: the ladder of horizons, the candidates, and their part of a series' state.

Horizon j is the mean of the next 2^j samples; between two rungs forecasts are interpolated in log k. A forecast of k
samples is made every k/4 samples and judged k samples later, so that at most four are pending on a rung and the state
does not grow with the horizon. Pending values are differences to the value at issue; a float32 holds them well, and of
the candidates' its upper half is enough to compare them.
"""

from __future__ import annotations

from itertools import accumulate

RUNGS = 14
"""Horizons of 1, 2, 4, … 8192 samples: a day at one sample every 10 s."""

PENDING = 4
"""Forecasts of one horizon that wait for their outcome at the same time, at most; a horizon of k has at most k."""

SLOTS = sum(min(PENDING, 1 << rung) for rung in range(RUNGS))
"""Forecasts of all horizons that wait: those of horizon 0 first."""

FIXED = ("last", "median_21", "median_51", "ar16", "ar16_100")
"""Methods of the battery that are candidates at each horizon, after its two picks and the mean of everything."""

WINDOWS = 6
"""Fading means that are candidates at horizon k: of windows k/4, k/2, … 8k, at least 2 samples."""

SHORTEST = 2
"""The first window is 2^SHORTEST times shorter than the horizon."""

FIRST_SLOT = tuple(accumulate((min(PENDING, 1 << rung) for rung in range(RUNGS)), initial=0))
"""First of the forecasts of each horizon that wait for their outcome, and the end."""

NAMES = ("mae pick", "mse pick", "mean", *FIXED)
FIRST_WINDOW = len(NAMES)
BLEND = FIRST_WINDOW + WINDOWS
"""Place of the blend of all others, which is judged like them."""

CANDIDATES = BLEND + 1

FADING = RUNGS + WINDOWS - SHORTEST - 1
"""Fading means of windows 2, 4, … 2^FADING."""

BINS = 41
"""Bins of the histogram of errors: equal steps of asinh(`BIN_SCALE`·error / scale) up to ±`BIN_EDGE` scales; the
middle one counts as no error."""

BIN_SCALE = 64.0
BIN_EDGE = 32.0

PACES = 2
"""Paces at which the tails are corrected."""

FIELDS = [
    ("interval_s", "f8"),
    ("fading", "f8", (FADING,)),
    # forecasts that wait for their outcome: the value at issue, sum of differences to it, sum of squares of these as
    # shares of it, of each the blend, its scale and the bounds of the 80 % interval, samples still missing (0: free),
    # candidates' forecasts as half float32
    ("origin", "f8", (SLOTS,)),
    ("sum", "f4", (SLOTS,)),
    ("squares", "f4", (SLOTS,)),
    ("issued", "f4", (SLOTS, 4)),
    ("left", "i2", (SLOTS,)),
    ("pending", "u2", (SLOTS, CANDIDATES)),
    # what outcomes taught: number, errors by candidate, scale of the blend's error, histogram of error / scale; of
    # the last two, before the first outcome: growth of other series' errors over that of the rung before, and histogram
    ("outcomes", "i4", (RUNGS,)),
    ("candidate_loss", "f4", (RUNGS, CANDIDATES)),
    ("scale", "f4", (RUNGS,)),
    ("histogram", "u2", (RUNGS, BINS)),
    # corrected tails and their losses by side and pace, share of intervals that held, change over the horizon
    ("tail", "f4", (RUNGS, 2, PACES)),
    ("tail_loss", "f4", (RUNGS, 2, PACES)),
    ("held", "f4", (RUNGS,)),
    # mean of (outcome - forecast) / scale
    ("bias", "f4", (RUNGS,)),
    ("drift", "f4", (RUNGS,)),
    # square of the coefficient of variation of the values that one mean is of
    ("variation", "f4", (RUNGS,)),
]
