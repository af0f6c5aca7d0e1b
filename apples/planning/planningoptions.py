"""Options of the planner, with the paper's and our own choices as presets."""

from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

from apples.errors import ConfigError
from apples.model.limits import Limits
from apples.model.runrequest import RunRequest

ModelName = Literal["exchange", "paper"]
Counts = Literal["every", "even"]
AllocationName = Literal["pulp", "minimax", "lp"]
RankOrder = Literal["tree", "desirability"]
CutName = Literal["auto", "slabs", "rectilinear", "columns"]
Horizon = Literal["run", "next"]


class PlanningKeywords(TypedDict, total=False):
    """The fields of `PlanningOptions` as keywords of functions, each of which may be missing."""

    model: ModelName
    counts: Counts
    allocation: AllocationName
    rank_order: RankOrder
    improve: bool
    horizon: Horizon
    quantile: float
    tolerance: float
    allow_spill: bool
    spill_factor: float
    max_ranks: int | None
    ranks: int | None
    cut: CutName
    limits: Limits
    prices: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningOptions:
    """Choices of one planning step. The defaults are ours; `PAPER` is the paper's Figure 2.

    model : "paper" is §3.1 as printed; "exchange" takes the slower of the two neighbours, whose exchanges overlap, and
        prices a slab that exceeds memory (`spill_factor`)
    counts : candidate host counts n, "every" one or only "even" ones as printed
    allocation : "pulp" is an integer program for the chosen chain, of up to 500 ranks, after candidates were compared
        by "minimax", which is exact in whole rows; "lp" is §3.3's linear program, then rounding, for all candidates
    rank_order : "tree" keeps well-connected hosts together; "desirability" leaves the list's order
    improve : also try groups of near hosts, then add, drop, swap and move hosts of the best candidates
    horizon : "run" takes forecasts of CPU shares over the predicted length of the run, and predicts its expected time;
        "next" takes those of the next measurement, and predicts the time if all forecasts come true
    quantile : probability of the makespan: 0.5 takes forecasts as they are, 0.9 plans for their errors
    tolerance : LP only, largest distance of a host from the common finish, as a fraction of it
    allow_spill : let slabs exceed memory if the run still ends soonest
    spill_factor : slowdown of a row outside memory ("two orders of magnitude", §3.3)
    max_ranks : use at most this many ranks; None for no limit
    ranks : use exactly this many ranks; None leaves the number to the planner
    cut : "auto" takes slabs or, of a program that can, a cut on two axes if that ends sooner; else that one
    limits : people's limits on the choice of hosts, beside those of the workload
    prices : also find the seconds that one unit more of each limit that binds would save
    """

    model: ModelName = "exchange"
    counts: Counts = "every"
    allocation: AllocationName = "pulp"
    rank_order: RankOrder = "tree"
    improve: bool = True
    horizon: Horizon = "run"
    quantile: float = 0.5
    tolerance: float = 0.01
    allow_spill: bool = False
    spill_factor: float = 100.0
    max_ranks: int | None = None
    ranks: int | None = None
    cut: CutName = "auto"
    limits: Limits = field(default_factory=Limits)
    prices: bool = False

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.quantile < 1:
            problems.append(f"quantile {self.quantile} is not between 0 and 1 (both excluded)")
        if not self.tolerance >= 0:
            problems.append(f"tolerance {self.tolerance} is not a fraction of the finish; use 0 or more")
        if not 1 <= self.spill_factor < float("inf"):
            problems.append(f"spill factor {self.spill_factor} is not a slow-down; use 1 or more")
        for name, count in (("max_ranks", self.max_ranks), ("ranks", self.ranks)):
            if count is not None and count < 1:
                problems.append(f"{name} {count} leaves nobody to do the work; use 1 or more")
        if self.ranks is not None and self.max_ranks is not None and self.ranks > self.max_ranks:
            problems.append(f"ranks {self.ranks} is more than max_ranks {self.max_ranks}")
        if problems:
            raise ConfigError(problems)

    def most_ranks(self, available: int) -> int:
        """Return the largest number of ranks these options allow if `available` could run."""
        return min([available, *(n for n in (self.max_ranks, self.ranks) if n is not None)])


#: The scheduler of the paper, line for line (Figure 2).
PAPER = PlanningOptions(
    model="paper", counts="even", allocation="lp", rank_order="desirability", improve=False, horizon="next"
)


def planning_options(request: RunRequest) -> PlanningOptions:
    """Return the planner options of a run: the scheduler's preset, overridden by the user's choices."""
    return replace(PAPER if request.scheduler == "paper" else PlanningOptions(), **request.overrides)
