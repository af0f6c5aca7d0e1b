"""The server's time carried on: what moves it, what does not, and how fast."""

import math
import random
import time

import pytest

from nws.timing.steadyclock import SteadyClock, boot_time


class World:
    """A server's clock, a host's wall clock that anybody may set, and a counter that nobody can."""

    def __init__(self, ahead=100.0):
        self.true, self.ahead = 1_000_000.0, ahead
        self.clock = SteadyClock(wall=lambda: self.true + self.ahead, counter=lambda: self.true - 900_000.0)

    def sleep(self, seconds):
        self.true += seconds

    def ask(self, there=0.001, back=0.001, server_off=0.0):
        """One exchange with the server."""
        sent = self.clock.counter()
        self.sleep(there)
        told = self.true + server_off
        self.sleep(back)
        return self.clock.observe(told, sent=sent, received=self.clock.counter())


@pytest.fixture
def world():
    return World()


def test_until_it_is_set_it_carries_on_the_wall_clock_of_the_start(world):
    assert not world.clock.is_set
    world.sleep(10)
    world.ahead = -5000.0
    assert world.clock() == pytest.approx(world.true + 100.0)


def test_sure_answer_sets_it_and_tells_how_wrong_it_was(world):
    assert world.ask() == pytest.approx(-100.0)
    assert world.clock.is_set
    assert world.clock() == pytest.approx(world.true)
    assert world.ask() is None


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_step_of_the_wall_clock_does_not_move_it(world, step):
    world.ask()
    world.ahead += step
    world.sleep(10)
    assert world.clock() == pytest.approx(world.true, abs=1e-3)


def test_answer_with_the_shortest_round_trip_counts(world):
    world.ask(there=0.0001, back=0.0001)
    # a crooked path: all of the delay is on the way there
    world.ask(there=0.8, back=0.0)
    world.sleep(60)
    assert world.clock() == pytest.approx(world.true, abs=1e-3)


def test_slow_first_answer_is_not_relied_upon(world):
    assert world.ask(there=0.8, back=0.0) is None
    assert not world.clock.is_set
    assert world.clock() == pytest.approx(world.true + 100.0)
    assert world.ask() == pytest.approx(-100.0)
    assert world.clock() == pytest.approx(world.true, abs=1e-3)


def test_on_a_slow_way_a_few_answers_set_it(world):
    for known in (False, False, True):
        world.ask(there=0.2, back=0.2)
        assert world.clock.is_set == known
    assert world.clock() == pytest.approx(world.true)


@pytest.mark.parametrize("crooked", [(0.08, 0.0), (0.0, 0.08)], ids=["ahead", "behind"])
def test_correction_is_spread_out_and_time_never_runs_backwards(world, crooked):
    world.ask(*crooked)
    off = (crooked[0] - crooked[1]) / 2
    assert world.clock() == pytest.approx(world.true + off)
    world.ask(there=0.0, back=0.0)
    before = world.clock()
    assert before == pytest.approx(world.true + off, abs=0.01)
    for _ in range(100):
        world.sleep(0.1)
        now = world.clock()
        assert 0.0979 <= now - before <= 0.1021
        before = now
    assert before == pytest.approx(world.true, abs=1e-6)


def test_one_odd_answer_is_not_believed(world):
    world.ask()
    world.ask(server_off=3600.0)
    world.ask()
    world.ask(server_off=-3600.0)
    world.ask()
    world.sleep(1)
    assert world.clock() == pytest.approx(world.true, abs=0.01)


def test_server_whose_clock_was_set_is_followed_once_it_says_so_three_times(world):
    world.ask()
    for _ in range(2):
        world.ask(server_off=3600.0)
        assert world.clock() == pytest.approx(world.true, abs=0.01)
    world.ask(server_off=3600.0)
    assert world.clock() == pytest.approx(world.true + 3600.0, abs=0.01)


def test_what_is_no_answer_is_not_heard(world):
    for told in (math.nan, math.inf):
        world.clock.observe(told, sent=1.0, received=2.0)
    world.clock.observe(5.0, sent=2.0, received=1.0)
    assert not world.clock.is_set


def test_many_crooked_answers_leave_an_error_below_the_best_of_them(world):
    draw = random.Random(5)
    for _ in range(50):
        world.ask(there=draw.expovariate(100), back=draw.expovariate(100))
        world.sleep(10)
    assert world.clock() == pytest.approx(world.true, abs=0.01)


def test_counter_of_the_system_goes_on():
    first = boot_time()
    assert boot_time() >= first > 0
    assert SteadyClock()() == pytest.approx(time.time(), abs=5)
