"""When rows should move between the ranks of a run: reports in, moves out; no clock, no I/O.

A move is made when the newest stretches of the run agree that another cut would have been faster by more than noise,
by a minimum, and by several times the cost of moving. Five rules keep it from chasing a load that varies:

- the cut found from one half of the stretches must have paid in the other half, so that chance is not taken for gain;
- a move must pay within the time that the evidence covers: a load that has lasted long is trusted longer;
- moving back needs several times as many stretches, and twice as many again at each repetition;
- a move must keep its promise: it is undone if iterations are hardly shorter afterwards on hosts as fast as before,
  because then the mean speeds of the ranks are not the cause of the waiting;
- an account records the gains and losses of moves against the plan's slabs, and every report shows it. When its
  allowance is lost the rows move back, and half of the allowance remains for later.

Source: Wolski et al. 2000, §2.1 describes a new schedule when conditions change; the rules are ours.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apples.model.grid import FloatArray
from apples.model.progress import Progress
from apples.planning.adapting.repartitioning import balanced, busiest_link_rows, moved_rows, slowest
from apples.planning.adapting.settings import SlabSettings

#: Stretches that are remembered; more add no information.
REMEMBERED = 256
#: Scatter of a stretch that is assumed at least, and before stretches show their own: fractions of a row's time.
LEAST_SPREAD, PRIOR_SPREAD = 0.01, 0.05
#: Largest difference between halves of the evidence, beyond their noise, for one and the same load.
SAME_LOAD = 0.1
#: Fewest stretches that show a scatter.
FEW = 4
#: Fraction of the promised gain that a move must deliver; largest fall of capacity at which that is judged.
KEPT, SAME_CAPACITY = 0.3, 0.9
#: Reports after which an unanswered order is forgotten.
PATIENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptationInputs:
    """A policy's knowledge of a run before its first report; P ranks in rank order.

    rows : of the plan.  hosts : of each rank.  caps : most rows of each, memory and arrays counted
    bytes_per_row : bytes to move a row over a link of `bandwidth_Bps`, the slowest of the chain
    collective_s : cost of any move, however few rows
    row_s : planned seconds of a row in an iteration, NaN if unknown.  share : planned share of a CPU
    """

    rows: tuple[int, ...]
    hosts: tuple[str, ...]
    caps: tuple[float, ...]
    min_rows: int = 1
    bytes_per_row: float = 0.0
    bandwidth_Bps: float = math.inf
    collective_s: float = 0.05
    row_s: tuple[float, ...] = ()
    share: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A cut worth moving to. gain_s : over the remaining `rest_s`.  cost_s : of moving.  why : reason for the user."""

    rows: tuple[int, ...]
    gain_s: float
    cost_s: float
    rest_s: float
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """A move under observation. rows : before it.  seconds : of an iteration then.  saving_s : promised per iteration.

    capacity : rows a second that all ranks together computed then
    """

    rows: tuple[int, ...]
    seconds: float
    saving_s: float
    capacity: float


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """The relevant values of a report. row_s : float64[P].  weight : iterations.  seconds .

    Of one iteration, without moves.
    """

    row_s: FloatArray
    weight: float
    seconds: float

    @property
    def lasted_s(self) -> float:
        """Return the length of the stretch in seconds."""
        return self.weight * self.seconds


class SlabPolicy:
    """The policy of one run. rows : heights of the ranks' slabs as last reported."""

    def __init__(self, inputs: AdaptationInputs, settings: SlabSettings | None = None) -> None:
        self.rows = inputs.rows
        self._inputs, self._settings = inputs, settings or SlabSettings()
        self._size = sum(inputs.rows)
        self._caps = np.array(inputs.caps, dtype=np.float64)
        self._stretches: deque[_Stretch] = deque(maxlen=REMEMBERED)
        self._elapsed_s = 0.0
        self._warm = False
        self._ordered: tuple[int, ...] | None = None
        self._waited = 0
        self._last_shift: FloatArray | None = None
        self._reversals = 0
        self._balance = 0.0
        self._allowance = self._settings.allowance
        self._per_row_s: float | None = None
        self._trial: _Trial | None = None

    def hear(self, progress: Progress) -> Proposal | None:
        """Return the move to make now, or None; a proposal counts as ordered."""
        self._elapsed_s += progress.seconds
        self._settle(progress)
        if not self._warm:
            # What a first stretch shows is caches and pages, too.
            self._warm = True
            return None
        self._stretches.append(
            _Stretch(np.array(progress.row_s), float(progress.iterations), max(progress.iteration_s, 0.0))
        )
        self._keep_account(progress)
        if self._ordered is not None:
            return None
        rest = self._rest(progress)
        proposal = self._broken(rest) or self._undo(progress, rest) or self._better(rest)
        if proposal is not None:
            self._order(proposal)
        return proposal

    @property
    def iteration_s(self) -> float:
        """Return the recent seconds of an iteration, NaN before the first reports."""
        recent = list(self._stretches)[-self._settings.least_reports :]
        weight = sum(s.weight for s in recent)
        return sum(s.weight * s.seconds for s in recent) / weight if weight else math.nan

    def row_s(self) -> FloatArray | None:
        """Return the recent seconds of each rank for a row, float64[P]; None before the first reports."""
        recent = list(self._stretches)[-2 * self._settings.least_reports :]
        return _mean(recent) if recent else None

    def _settle(self, progress: Progress) -> None:
        """Record slabs that have changed, or that were refused."""
        if progress.rows != self.rows:
            moved = moved_rows(self.rows, progress.rows)
            if progress.moved_s is not None and moved:
                self._per_row_s = progress.moved_s / moved
            self.rows = progress.rows
            self._ordered = None
            self._stretches.clear()
        elif self._ordered is not None:
            self._waited += 1
            if progress.refused is not None or self._waited > PATIENCE:
                self._ordered = self._trial = None
                self._reversals += 1

    def _keep_account(self, progress: Progress) -> None:
        """Add the iterations won or lost against the plan's slabs."""
        newest = self._stretches[-1]
        self._balance -= (progress.moved_s or 0.0) / newest.seconds
        if self.rows != self._inputs.rows:
            self._balance += newest.weight - newest.lasted_s / float(
                self._replayed(self._inputs.rows, [newest])[0]
            )

    def _rest(self, progress: Progress) -> float:
        """Return the remaining iterations; if unknown, as many as there were."""
        return float(progress.iteration) if progress.left is None else progress.left

    def _undo(self, progress: Progress, left: float) -> Proposal | None:
        """Return to the plan's slabs when moves have lost their allowance and are not about to win it back."""
        if self._balance >= -self._allowance * (progress.iteration + left):
            return None
        self._allowance /= 2
        self._balance = 0.0
        self._reversals += 2
        recent = list(self._stretches)[-self._settings.least_reports :]
        gain_s = left * self._saving(self._inputs.rows, recent)
        if self.rows == self._inputs.rows or gain_s <= self._cost(self._inputs.rows):
            return None
        return self._proposal(self._inputs.rows, gain_s, left, "the load does not last: back to the plan")

    def _broken(self, left: float) -> Proposal | None:
        """Return to the slabs before the last move if it has not kept its promise."""
        trial, newest = self._trial, list(self._stretches)
        least = self._settings.least_reports
        if trial is None or len(newest) not in (least, 4 * least, 16 * least):
            return None
        saved_s = trial.seconds - _seconds(newest)
        if saved_s >= KEPT * trial.saving_s or _capacity(_mean(newest)) < SAME_CAPACITY * trial.capacity:
            return None
        gain_s = -left * saved_s
        if gain_s <= self._cost(trial.rows):
            # neither better nor worse: it is judged once more, by more
            return None
        self._trial = None
        self._reversals += 2
        return self._proposal(trial.rows, gain_s, left, "iterations are no shorter than before: back again")

    def _better(self, left: float) -> Proposal | None:
        """Return the cut that the newest stretches agree on, if it is worth its price."""
        settings = self._settings
        most = len(self._stretches)
        needed = settings.least_reports * 2**self._reversals
        newest = list(self._stretches)
        while needed <= most:
            window = newest[-needed:]
            rows = self._agreed(window)
            if rows is not None:
                factor = settings.opposite_factor if self._is_backwards(rows) else 1
                gain_s = left * self._saving(rows, window)
                seconds = sum(s.weight * s.seconds for s in window)
                cost_s = self._cost(rows)
                lasting_s = gain_s * seconds / max(left * self.iteration_s, 1e-300)
                if (
                    len(self._stretches) >= factor * settings.least_reports * 2**self._reversals
                    and (factor == 1 or needed >= factor * settings.least_reports)
                    and gain_s > max(settings.cost_factor * cost_s, 0.0)
                    and lasting_s > cost_s
                ):
                    return self._proposal(rows, gain_s, left, self._why(window))
            needed *= 2
        return None

    def _agreed(self, window: list[_Stretch]) -> tuple[int, ...] | None:
        """Return a cut better in both halves of a window by more than noise, each half judged by the other's cut."""
        half = len(window) // 2
        halves = window[:half], window[half:]
        means = [_mean(part) for part in halves]
        spread = self._spread()
        noise = self._settings.sureness * spread / math.sqrt(half)
        if np.abs(np.log(means[1] / means[0])).max() > SAME_LOAD + math.sqrt(2) * noise:
            return None
        minimum = self._settings.minimum_gain
        if any(
            self._to_gain(mean) < minimum * _seconds(part) for mean, part in zip(means, halves, strict=True)
        ):
            return None
        for mean, other in zip(means, reversed(halves), strict=True):
            rows = self._balanced(mean)
            if rows is None:
                return None
            least = minimum + min(noise, self._uncertainty(rows, other))
            if self._saving(rows, other) < least * _seconds(other):
                return None
        rows = self._balanced(_mean(window))
        return rows if rows != self.rows else None

    def _uncertainty(self, rows: Sequence[int], stretches: list[_Stretch]) -> float:
        """Return the standard error of the saving of a cut, a fraction; infinite for too few stretches."""
        count = len(stretches)
        if count < FEW:
            return math.inf
        before = np.array([s.seconds for s in stretches])
        saved = (before - self._replayed(rows, stretches)) / before.mean()
        # a scatter that was itself seen in few stretches is not sure either
        sureness = self._settings.sureness * (1 + 2 / (count - 1))
        return sureness * float(saved.std(ddof=1)) / math.sqrt(count)

    def _to_gain(self, row_s: FloatArray) -> float:
        """Return the seconds that the best cut, in real rows and without limits, could take off an iteration."""
        return float(slowest(self.rows, row_s[None, :])[0] - self._size / (1 / row_s).sum())

    def _balanced(self, row_s: FloatArray) -> tuple[int, ...] | None:
        rows = balanced(row_s, self._size, self._inputs.min_rows, self._caps)
        return None if rows is None else tuple(rows.tolist())

    def _saving(self, rows: Sequence[int], stretches: list[_Stretch]) -> float:
        """Return the seconds by which an iteration would have been shorter with these rows, over some stretches.

        Loads last for times, not for iterations: the comparison is of iterations in the same time.
        """
        lasted_s = np.array([s.lasted_s for s in stretches])
        done = float((lasted_s / self._replayed(rows, stretches)).sum())
        return _seconds(stretches) - float(lasted_s.sum()) / done

    def _replayed(self, rows: Sequence[int], stretches: list[_Stretch]) -> FloatArray:
        """Return the seconds of an iteration with these rows in each stretch; time not spent computing is unchanged."""
        row_s = np.stack([s.row_s for s in stretches])
        seconds = np.array([s.seconds for s in stretches])
        computing = slowest(rows, row_s)
        return np.maximum(seconds - slowest(self.rows, row_s), 0.0) + computing

    def _spread(self) -> float:
        """Return the scatter of a row's time from stretch to stretch, of the rank with the most, as a fraction."""
        if len(self._stretches) < 2 * self._settings.least_reports:
            return PRIOR_SPREAD
        times = np.log(np.stack([s.row_s for s in self._stretches]))
        # Steps of a load are few and large: the median of the differences does not see them.
        between = np.median(np.abs(np.diff(times, axis=0)), axis=0) / (0.6745 * math.sqrt(2))
        return max(float(between.max()), LEAST_SPREAD)

    def _is_backwards(self, rows: Sequence[int]) -> bool:
        shift = np.subtract(rows, self.rows)
        return self._last_shift is not None and float(shift @ self._last_shift) < 0

    def _cost(self, rows: Sequence[int]) -> float:
        """Return the seconds of a move to these rows: as at the last move, else by the slowest link."""
        inputs = self._inputs
        if self._per_row_s is not None:
            return inputs.collective_s + self._per_row_s * moved_rows(self.rows, rows)
        crossing = busiest_link_rows(self.rows, rows) * inputs.bytes_per_row
        return inputs.collective_s + crossing / inputs.bandwidth_Bps

    def _proposal(self, rows: Sequence[int], gain_s: float, left: float, why: str) -> Proposal:
        return Proposal(
            rows=tuple(rows),
            gain_s=gain_s,
            cost_s=self._cost(rows),
            rest_s=left * self.iteration_s,
            why=why,
        )

    def _order(self, proposal: Proposal) -> None:
        if self._is_backwards(proposal.rows):
            self._reversals += 1
        recent = list(self._stretches)[-self._settings.least_reports :]
        promised_s = self._saving(proposal.rows, recent)
        if proposal.rows != self._inputs.rows:
            self._trial = _Trial(self.rows, _seconds(recent), promised_s, _capacity(_mean(recent)))
        self._last_shift = np.subtract(proposal.rows, self.rows).astype(np.float64)
        self._ordered, self._waited = proposal.rows, 0

    def _why(self, window: list[_Stretch]) -> str:
        """Return the host whose speed differs most from the plan."""
        inputs, now = self._inputs, _mean(window)
        planned = np.array(inputs.row_s or [math.nan] * len(now))
        off = np.log(now / planned)
        if not np.isfinite(off).any():
            return f"{inputs.hosts[int((now * self.rows).argmax())]} is the slowest"
        rank = int(np.nanargmax(np.abs(off)))
        host, ratio = inputs.hosts[rank], float(planned[rank] / now[rank])
        word = "slower" if ratio < 1 else "faster"
        if inputs.share and math.isfinite(inputs.share[rank]):
            share = inputs.share[rank]
            return f"{host} is {word} than planned ({share:.2f} → {min(share * ratio, 1.0):.2f} of a CPU)"
        return f"{host} is {word} than planned ({ratio:.2f} of it)"


def _mean(stretches: Sequence[_Stretch]) -> FloatArray:
    """Return the seconds of a row of each rank, mean over iterations, float64[P]."""
    weights = np.array([s.weight for s in stretches])
    mean: FloatArray = np.average(np.stack([s.row_s for s in stretches]), axis=0, weights=weights)
    return np.maximum(mean, 1e-300)


def _capacity(row_s: FloatArray) -> float:
    """Return the rows a second of all ranks together, if none waited."""
    return float((1 / row_s).sum())


def _seconds(stretches: Sequence[_Stretch]) -> float:
    """Return the seconds of an iteration over some stretches."""
    return sum(s.weight * s.seconds for s in stretches) / sum(s.weight for s in stretches)
