"""Controllers: what they say, what they keep of moves, and when they end a run to go on elsewhere."""

from dataclasses import dataclass, replace

import pytest

from apples.errors import NoFeasiblePlan
from apples.model.grid import Estimate, Grid, Host, LinkRule, Snapshot
from apples.model.plan import Plan
from apples.model.progress import CheckpointAndEnd, NewSlabs
from apples.model.template import Costs, Workload
from apples.planning.adapting.hosts import HostPolicy
from apples.planning.adapting.settings import AdaptSettings, HostSettings
from apples.planning.baselines import default_plan
from apples.planning.planner import make_plan
from apples.planning.planningoptions import PlanningOptions
from apples.run.adaptation import ControllerInputs, HostController, SlabController, adaptation_inputs
from tests.apples.samples import a_stretch

OPTIONS = PlanningOptions(ranks=2)
COSTS = Costs(seconds_per_row={"x": {1: 1e-3}})
WORKLOAD = Workload(application="toy", size=100, iterations=1000, bytes_per_row=2e6, min_rows=2)


@dataclass
class Decided:
    """As much of `apples.run.agent.Decision` as controllers look at."""

    plan: Plan
    snapshot: Snapshot
    workload: Workload = WORKLOAD
    costs: Costs = COSTS


def snapshot(names="ab", **shares):
    hosts = tuple(Host(name=name, cpu_type="x", memory_bytes=1e9) for name in names)
    links = (
        LinkRule(latency_s=1e-4, bandwidth_Bps=1e8),
        LinkRule(ends=("a", "b"), latency_s=1e-4, bandwidth_Bps=2e7),
    )
    found = Snapshot.nominal(Grid(name="g", hosts=hosts, links=links))
    conditions = tuple(
        replace(c, availability=Estimate(value=shares.get(h.name, 1.0)))
        for h, c in zip(hosts, found.conditions, strict=True)
    )
    return replace(found, conditions=conditions)


@pytest.fixture
def decided():
    seen = snapshot(a=0.5, b=0.5)
    return Decided(make_plan(seen, WORKLOAD, COSTS, OPTIONS), seen)


@pytest.fixture
def slabs(decided):
    said = []
    controller = SlabController(adaptation_inputs(decided, OPTIONS), AdaptSettings(), said.append)
    return controller, said


def told(rows, row_s, iteration, **more):
    return a_stretch(rows, row_s, iteration, **{"left": 1000.0 - iteration, **more})


def hear(controller, rows, row_s, count, start=0):
    orders = [controller.hear(told(rows, row_s, start + 10 * k)) for k in range(1, count + 1)]
    return [order for order in orders if order is not None]


def test_ground_is_what_the_plan_was_made_of(decided):
    inputs = adaptation_inputs(decided, OPTIONS)
    assert (inputs.rows, inputs.hosts, inputs.min_rows) == ((50, 50), ("a", "b"), 2)
    assert inputs.row_s == pytest.approx((2e-3, 2e-3))
    assert inputs.share == (0.5, 0.5)
    assert inputs.caps == (500.0, 500.0)
    assert (inputs.bytes_per_row, inputs.bandwidth_Bps) == (1e6, 2e7)


def test_plan_without_limits_has_ground_too(decided):
    decided.workload = replace(WORKLOAD, bytes_fixed=2e9)
    decided.costs = Costs(seconds_per_row={"x": {1: 1e-3}})
    seen = snapshot("abc")
    roomy = replace(seen.conditions[2], memory_bytes=Estimate(value=1e12))
    decided.snapshot = replace(seen, conditions=(*seen.conditions[:2], roomy))
    decided.plan = default_plan(decided.snapshot, decided.workload, decided.costs, PlanningOptions())
    inputs = adaptation_inputs(decided, PlanningOptions())
    assert sum(inputs.rows) == 100
    assert all(cap >= rows for cap, rows in zip(inputs.caps, inputs.rows, strict=True))


def test_move_is_said_kept_and_measured(slabs):
    controller, said = slabs
    assert hear(controller, (50, 50), (2e-3, 8e-3), 6) == [NewSlabs(rows=(80, 20))]
    assert said == ["b is slower than planned (0.50 → 0.12 of a CPU): moving 30 rows, gain 228 s of 380"]
    (move,) = controller.ended()
    assert (move.iteration, move.before, move.after, move.took_s) == (50, (50, 50), (80, 20), None)
    controller.hear(told((80, 20), (2e-3, 8e-3), 70, moved_s=0.5))
    hear(controller, (80, 20), (2e-3, 8e-3), 2, start=70)
    assert controller.ended() == (replace(move, took_s=0.5),)


def test_refusal_is_said_and_kept(slabs):
    controller, said = slabs
    hear(controller, (50, 50), (2e-3, 8e-3), 6)
    controller.hear(told((50, 50), (2e-3, 8e-3), 70, refused="b: no memory"))
    (move,) = controller.ended()
    assert (move.refused, move.took_s) == ("b: no memory", None)
    assert said[-1] == "the slabs stay as they are: b: no memory"


def test_departure_moves_all_rows_and_goes_on(slabs):
    controller, said = slabs
    hear(controller, (50, 50), (2e-3, 2e-3), 3)
    assert controller.leave({"a": "is drained"}) == NewSlabs(rows=(0, 100), reader="b")
    assert said == ["a is drained: its rows go to b"]
    assert controller.hear(told((50, 50), (2e-3, 2e-3), 40)) is None
    alone = replace(told((50, 50), (2e-3, 2e-3), 50), rows=(100,), moved_s=0.5)
    for stretch in range(6):
        one = {"compute_s": (0.1,), "exchange_s": (0.0,), "reduce_s": (0.0,)}
        assert controller.hear(replace(alone, **one, iteration=50 + 10 * stretch)) is None
    (move,) = controller.ended()
    assert (move.before, move.after, move.reason, move.took_s) == ((50, 50), (0, 100), "a is drained", 0.5)


def test_departure_that_ranks_refuse_leaves_them_idle(slabs):
    controller, said = slabs
    controller.leave({"b": "is drained"})
    assert controller.leave({"b": "is drained"}) == NewSlabs(rows=(100, 0)), "until the ranks have answered"
    refused = told((50, 50), (2e-3, 2e-3), 10, refused="ranks can leave under MPICH's mpiexec only")
    assert controller.hear(refused) == NewSlabs(rows=(98, 2), reader="a")
    assert "b must not end before the run: its ranks cannot leave" in said
    assert hear(controller, (98, 2), (2e-3, 2e-3), 12, start=10) == [], "and they get no rows back"


def test_departure_of_the_last_host_while_another_leaves_is_refused(slabs):
    controller, said = slabs
    controller.leave({"a": "is drained"})
    assert controller.leave({"a": "is drained", "b": "is drained"}) == NewSlabs(rows=(0, 100))
    assert controller.hear(told((100,), (2e-3,), 10)) is None
    assert said[-1] == "b must not end before the run: no other host can hold its rows"


def test_departure_from_the_only_hosts_is_impossible(slabs):
    assert slabs[0].leave({"a": "is drained", "b": "is drained"}) is None


@pytest.fixture
def watched(decided, slabs):
    """An controller of hosts over a pool that a test sets; everything settled, looks one after the other."""

    def build(pool, *, beside=False, **settings):
        said = []
        policy = HostPolicy(HostSettings(**{"look_every_s": 1.0, "wait_s": 1.0, **settings}))
        looks = ControllerInputs(
            decision=decided, options=OPTIONS, snapshot=pool, change_s=1.0, beside=beside
        )
        return HostController(slabs[0], policy, looks, said.append), said

    return build


def test_better_host_ends_the_run_when_two_looks_agree(watched):
    controller, said = watched(lambda: snapshot("abc", a=0.2, b=0.2))
    orders = hear(controller, (50, 50), (8e-3, 8e-3), 20)
    (end,) = [order for order in orders if isinstance(order, CheckpointAndEnd)][:1]
    assert end.why.startswith("going on on ")
    assert "c" in end.why
    assert said == []
    assert controller.report_every_s == AdaptSettings().slabs.report_every_s


def test_no_better_host_ends_nothing(watched):
    controller, _ = watched(lambda: snapshot("abc", a=0.2, b=0.2, c=0.05))
    assert hear(controller, (50, 50), (2e-3, 2e-3), 20) == []


def test_pool_that_cannot_be_looked_at_is_said_and_the_run_goes_on(watched):
    def pool():
        raise NoFeasiblePlan("nobody answers\nat all")

    controller, said = watched(pool)
    assert hear(controller, (50, 50), (2e-3, 2e-3), 4) == []
    assert set(said) == {"no look at the pool: nobody answers"}


def test_looks_go_on_beside_the_run_and_end_with_it(watched):
    import threading

    looking, free = threading.Event(), threading.Event()
    looks = []

    def pool():
        looking.set()
        assert free.wait(30)
        looks.append(threading.current_thread().name)
        return snapshot("ab", a=0.5, b=0.5)

    controller, _ = watched(pool, beside=True)
    assert hear(controller, (50, 50), (2e-3, 2e-3), 10) == []
    assert looking.wait(30)
    free.set()
    assert controller.ended() == ()
    assert looks == ["look at the pool"]


def test_before_the_first_reports_there_is_nothing_to_look_for(watched):
    controller, _ = watched(lambda: pytest.fail("looked"), wait_s=0.0, look_every_s=0.0)
    assert controller.hear(told((50, 50), (2e-3, 2e-3), 10)) is None
