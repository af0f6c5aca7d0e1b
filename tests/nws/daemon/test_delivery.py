"""Delivery against a server that answers as the test wants: order, pauses, refusals, keys, news."""

import random

import pytest

from nws.base.errors import ProbeError, ServiceError, ServiceUnreachable, UsageError
from nws.daemon.delivery import MOST_SAMPLES, NEWS_S, DeliveryJob
from nws.daemon.spool import Spool
from nws.links.cliques import Clique, schedule
from nws.series import Measurement, Series
from nws.timing.periodic import Counts
from nws.timing.steadyclock import SteadyClock

CPU, BAD = Series.parse("cpu.new@a"), Series.parse("memory.free@a")


class FakeServer:
    """Keeps what it is sent. fail : an error, or a function of the samples that may return one."""

    timeout_s = 5.0

    def __init__(self, world):
        self.world = world
        self.log, self.kept, self.stamped, self.statuses = [], [], [], []
        self.fail, self.fail_registration = None, None
        self.registered, self.key, self.version, self.next = False, None, 1, None
        self.answer = {}

    def register(self, host, registration):
        self.log.append("register")
        self.world.t += 0.02
        if self.fail_registration:
            raise self.fail_registration
        self.registered = True
        fresh = {} if self.key else {"key": "k1"}
        self.key = "k1"
        return {
            **self.schedule(),
            "every": {"cpu": 5.0, "memory": 20.0, "deliver": 8.0},
            "grid": "lab",
            **fresh,
        } | self.answer

    def schedule(self):
        self.log.append("schedule")
        made = schedule(
            [Clique(name="c", members=("a", "b"))], version=self.version, effective_from=self.world.t
        )
        return {"now": self.world.t, "schedule": made.to_json(), "peers": {"b": ["10.0.0.2", 7]}}

    def put(self, measurements=(), *, source=None, first=None, status=None):
        self.log.append(len(measurements))
        self.world.t += 0.02
        error = self.fail(measurements) if callable(self.fail) else self.fail
        if error:
            raise error
        if not self.registered:
            raise ServiceError.of(404, "host a is not registered")
        self.statuses.append(status)
        self.kept += [m.value for m in measurements]
        self.stamped += [(m.t, m.value) for m in measurements]
        self.sent = (source, first)
        return {
            "now": self.world.t,
            "accepted": len(measurements),
            "next": (first or 0) + len(measurements),
            "schedule": self.version,
            "refused": {"count": 0, "reasons": []},
        } | self.answer

    def close(self):
        self.log.append("close")


class World:
    """The rest of the daemon (`SensorDaemon`), with a clock that moves when a test says so."""

    def __init__(self, path, wrong_s=0.0):
        self.t = 1_000_000.0
        self.clock = SteadyClock(wall=lambda: self.t - wrong_s, counter=lambda: self.t)
        self.server = FakeServer(self)
        self.said, self.keys, self.learnt, self.periods, self.connects = [], [], [], None, []
        self.version, self.moved, self.no_address, self.no_token = None, False, None, None
        self.spool = Spool(path, "a")
        self.counts = Counts()
        self.delivery = DeliveryJob(
            "a", self.spool, self.clock, self, key="k0", say=self.said.append, dice=random.Random(1)
        )

    def connect(self, key):
        if self.no_token:
            raise self.no_token
        self.connects.append(key)
        return self.server

    def registration(self):
        if self.no_address:
            raise self.no_address
        return {"address": "10.0.0.1", "port": 9}

    def status(self):
        return {"buffered": len(self.spool)}

    def keep_key(self, key):
        self.keys.append(key)

    def set_periods(self, cpu_s, memory_s):
        self.periods = (cpu_s, memory_s)

    def learn(self, schedule, peers):
        self.learnt.append((schedule.version, peers))
        self.version, self.moved = schedule.version, False

    def wants_news(self, version):
        return version != self.version, self.moved

    def add(self, *values, series=CPU):
        self.spool.add([Measurement(series, self.t, float(v)) for v in values])

    def run(self, times=1):
        for _ in range(times):
            delay = self.delivery.run(self.counts)
            self.t += delay
        return delay


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "spool.db")
    yield world
    world.spool.close()


def refused(status, message="no", **options):
    return ServiceError.of(status, message, **options)


def test_first_run_registers_and_delivers(world):
    world.add(1, 2)
    delay = world.run()
    assert world.server.log[:3] == ["register", "schedule", 2]
    assert world.server.kept == [1, 2]
    assert world.keys == ["k1"]
    assert world.periods == (5.0, 20.0)
    assert world.learnt == [(1, {"b": ("10.0.0.2", 7)})]
    assert 0 < delay <= 8.0
    assert world.said[-1] == "server: registered a with grid lab"
    assert world.server.sent == (f"a/{world.spool.stream}", 1)
    assert len(world.spool) == 0


def test_clock_is_set_by_the_answers_and_what_was_stamped_before_is_put_right(tmp_path):
    world = World(tmp_path / "wrong.db", wrong_s=7200.0)
    world.server.fail_registration = ServiceUnreachable("not yet")
    for _ in range(3):
        stamped = world.clock()
        assert stamped == pytest.approx(world.t - 7200.0)
        world.spool.add([Measurement(CPU, stamped, world.t)])
        world.run()
    world.server.fail_registration = None
    world.run()
    assert world.clock() == pytest.approx(world.t, abs=0.05)
    assert [t for t, _ in world.server.stamped] == pytest.approx(
        [v for _, v in world.server.stamped], abs=0.1
    )
    assert any(
        line.startswith("server: the clock of this host is 2 h behind the server's; 3 samples put right")
        for line in world.said
    )
    world.spool.close()


def test_with_nothing_to_deliver_it_shows_that_it_lives(world):
    world.run(3)
    assert world.server.log.count(0) == 3
    assert world.server.statuses[-1] == {"buffered": 0}
    assert world.delivery.run(world.counts) == pytest.approx(8.0, abs=0.1)
    assert world.counts.done == 4


def test_outage_is_waited_out_with_growing_pauses_and_told_once(world):
    world.run()
    world.server.fail = ServiceUnreachable("http://x: nobody listens there")
    delays = []
    for n in range(8):
        world.add(n)
        delays.append(world.run())
    assert 4 <= delays[0] <= 8
    assert all(30 <= d <= 60 for d in delays[3:])
    assert len(set(delays)) == len(delays)
    assert world.said[1:] == [
        "server: http://x: nobody listens there; measurements are kept until it answers"
    ]
    world.server.fail = None
    world.run()
    assert world.server.kept == list(range(8))
    assert world.said[-1] == "server: answers again"
    assert (world.counts.failed, world.counts.done) == (8, 2)


def test_server_that_is_away_at_the_start(world):
    world.server.fail_registration = ServiceUnreachable("nobody")
    world.add(1)
    world.run(3)
    assert world.server.kept == []
    world.server.fail_registration = None
    world.run()
    assert world.server.kept == [1]


def test_what_waits_goes_out_in_bounded_batches(world):
    many = 25 * MOST_SAMPLES + 5
    world.add(*range(many))
    assert world.run() < 0.5
    world.run()
    assert world.server.kept == list(range(many))
    assert max(x for x in world.server.log if isinstance(x, int)) == MOST_SAMPLES


def test_answer_that_never_came_leads_to_no_doubles(world):
    """The server kept the batch, and its answer was lost: the same numbers are sent again."""
    world.run()
    world.add(1, 2, 3)
    first = []

    def lose(measurements):
        first.append(world.spool.oldest(9).first)
        return ServiceUnreachable("cut") if len(first) == 1 else None

    world.server.fail = lose
    world.run(2)
    assert first[0] == first[1]


@pytest.mark.parametrize("status", [500, 502, 503, 507, 429])
def test_server_that_cannot_now_is_asked_again_and_nothing_is_dropped(world, status):
    world.run()
    world.add(1)
    world.server.fail = refused(status, "later", retry_after_s=45.0)
    assert 45.0 <= world.run() <= 60.0
    world.server.fail = None
    world.run()
    assert world.server.kept == [1]
    assert world.delivery.samples.refused == 0


def test_silly_retry_after_is_bounded(world):
    world.server.fail = refused(429, "later", retry_after_s=1e9)
    assert world.run() == 300.0


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_samples_that_are_refused_are_found_dropped_and_counted_and_block_nothing(world, status):
    world.run()
    world.add(*range(50))
    world.add(50, series=BAD)
    world.add(*range(51, 100))

    def picky(measurements):
        bad = any(m.series == BAD for m in measurements)
        return refused(status, "memory.free@a: no such series") if bad else None

    world.server.fail = picky
    world.run(3)
    assert world.server.kept == [n for n in range(100) if n != 50]
    assert world.delivery.samples.refused == 1
    assert world.said[-1] == "server: 1 sample refused and dropped: memory.free@a: no such series"
    assert len(world.spool) == 0


@pytest.mark.parametrize("status", [400, 405, 408, 410, 451])
def test_server_that_refuses_everything_costs_no_sample(world, status):
    """Somebody else answers at the server's address: nothing is wrong with the samples."""
    world.run()
    world.add(*range(10))
    world.server.fail = refused(status, "not here")
    world.run(20)
    assert (len(world.spool), world.delivery.samples.refused) == (10, 0)
    world.server.fail = None
    world.run(10)
    assert world.server.kept == list(range(10))


def test_series_too_many_does_not_hold_up_the_others(world):
    world.run()
    world.add(0, 1)
    world.add(2, series=BAD)
    world.add(3)

    def full(measurements):
        bad = any(m.series == BAD for m in measurements)
        return refused(429, "memory.free@a: a has 1 series and may have 1") if bad else None

    world.server.fail = full
    world.run(3)
    assert world.server.kept == [0, 1, 3]
    assert world.delivery.samples.refused == 1


def test_nothing_is_delivered_before_the_time_is_known_well(tmp_path):
    """On a slow line one answer does not set the clock; a sample a day off would be refused, and lost."""
    world = World(tmp_path / "slow.db", wrong_s=-86400.0)
    world.add(1)
    world.spool.shift(86400.0)
    slow = world.server.register

    def register(host, registration):
        world.t += 0.5
        return slow(host, registration)

    world.server.register = register
    world.run()
    assert world.server.stamped == [(pytest.approx(1_000_000.0, abs=1.0), 1.0)]
    world.spool.close()


def test_host_that_has_moved_tells_the_server_its_new_address(world):
    world.run()
    world.registration = lambda: {"address": "10.0.0.77", "port": 9}
    world.run(round(NEWS_S / 8.0) + 2)
    assert world.server.log.count("register") == 2
    assert world.delivery.run(world.counts) == pytest.approx(8.0, abs=0.1)


def test_after_an_outage_a_host_looks_at_once_whether_it_has_moved(world):
    world.run()
    world.server.fail = ServiceUnreachable("no route")
    world.add(1)
    world.run()
    world.server.fail, world.registration = None, lambda: {"address": "10.0.0.77", "port": 9}
    world.run()
    assert world.server.log.count("register") == 2
    assert world.server.kept == [1]


def test_host_without_an_address_for_a_while_delivers_all_the_same(world):
    world.run()
    world.no_address = ProbeError("the interface is down")
    world.add(1)
    world.run(round(NEWS_S / 8.0) + 2)
    assert world.server.kept == [1]
    assert world.server.log.count("register") == 1
    assert world.counts.failed == 0


def test_samples_the_server_acknowledges_without_keeping_are_counted(world):
    world.server.answer = {"refused": {"count": 2, "reasons": ["too far in the future"]}}
    world.add(1, 2, 3)
    world.run()
    assert world.delivery.samples.refused == 2
    assert "server: 2 samples refused and dropped: too far in the future" in world.said


def test_server_that_forgot_us_is_told_again_and_nothing_is_lost(world):
    world.run()
    world.server.registered, world.server.key = False, None
    world.add(1)
    world.run()
    assert world.server.kept == [1]
    assert world.server.log.count("register") == 2
    assert world.keys == ["k1"]


@pytest.mark.parametrize("status", [401, 403])
def test_token_or_key_that_is_refused_is_told_once_and_tried_slowly(world, status):
    world.add(1)
    world.server.fail_registration = refused(status, "the token is not known")
    assert [world.run() for _ in range(3)] == [60.0] * 3
    (said,) = world.said
    assert said.startswith("server: the token is not known")
    assert "give it a token of the role `write` (--token-file, then SIGHUP)" in said
    world.server.fail_registration = None
    world.run()
    assert world.server.kept == [1]


def test_key_that_is_refused_at_delivery(world):
    world.run()
    world.server.fail = refused(403, "the key is not that of a")
    world.add(1)
    assert world.run() == 60.0
    # it registered anew to see whether that helps, once
    assert world.server.log.count("register") == 2
    assert len(world.spool) == 1


def test_name_that_is_taken(world):
    world.server.fail_registration = refused(409, "another host holds the name a")
    assert world.run() == 60.0
    assert "run `nws forget` for it; else choose another --host" in world.said[0]


def test_new_token_is_read_when_told(world):
    world.run(2)
    assert world.connects == ["k0"]
    world.delivery.reload()
    world.run()
    assert world.connects == ["k0", "k1"]
    assert "close" in world.server.log


def test_token_file_that_went_bad_is_told_and_tried_again(world):
    world.no_token = UsageError("token: others may read it")
    world.run(2)
    assert world.said == ["server: token: others may read it; measurements are kept until it answers"]
    world.no_token = None
    world.run()
    assert world.server.registered


def test_without_an_address_there_is_no_registration_yet(world):
    world.no_address = ProbeError("server.example: the server's address could not be looked up")
    world.run(2)
    assert world.server.log == []
    world.no_address = None
    world.run()
    assert world.server.registered


def test_new_schedule_is_fetched(world):
    world.run()
    world.server.version = 2
    world.run()
    assert world.learnt[-1][0] == 2
    assert world.server.log.count("schedule") == 2


def test_peers_that_moved_are_asked_for_now_and_then(world):
    world.run()
    start = world.t
    asked = world.server.log.count("schedule")
    for _ in range(12):
        world.moved = True
        world.run()
    most = (world.t - start) / NEWS_S + 2
    assert 1 <= world.server.log.count("schedule") - asked <= most


@pytest.mark.parametrize(
    "answer",
    [
        {"schedule": {"version": 1}},
        {"peers": {"b": 5}},
        {"peers": None},
        {"every": None},
        {"every": {"memory": "often"}},
    ],
)
def test_registration_answered_with_nonsense(world, answer):
    world.server.answer = answer
    world.add(1)
    world.run(2)
    assert any("is it a weather service of another version?" in line for line in world.said)
    world.server.answer = {}
    world.run()
    assert world.server.kept == [1]


@pytest.mark.parametrize("following", [None, 0, "7"])
def test_acknowledgement_of_nothing_is_a_failure_not_a_loop(world, following):
    world.server.answer = {"next": following}
    world.add(1)
    world.run()
    assert world.counts.failed == 1
    assert len(world.spool) == 1


def test_periods_out_of_range_are_not_taken_over(world):
    world.server.answer = {"every": {"cpu": 0, "memory": -1, "deliver": 1e9}}
    world.run()
    assert world.periods == (None, None)
    assert world.delivery.period_s == 10.0


def test_end_delivers_what_waits_and_hangs_up(world):
    world.run()
    world.add(*range(3))
    world.delivery.flush(5.0)
    assert world.server.kept == [0, 1, 2]
    assert world.server.log[-1] == "close"
    assert world.server.timeout_s == 5.0


def test_end_in_an_outage_waits_for_nobody(world):
    world.run()
    world.add(1)
    world.server.fail = ServiceUnreachable("gone")
    world.delivery.flush(5.0)
    assert len(world.spool) == 1
    assert world.server.log[-1] == "close"


def test_samples_whose_numbers_the_server_has_seen_already_are_counted_not_swallowed(world):
    world.add(*range(MOST_SAMPLES + 3))
    world.server.answer = {"next": 10**6}
    world.run()
    assert len(world.spool) == 0
    assert world.delivery.samples.refused == 3
    assert any("3 samples refused and dropped: the server had their numbers already" in s for s in world.said)


def test_long_list_of_refusals_is_one_short_line(world):
    world.server.answer = {"refused": {"count": 20, "reasons": ["x" * 200] * 20}}
    world.add(1, 2, 3)
    world.run()
    line = next(s for s in world.said if "20 samples refused" in s)
    assert len(line) < 400
    assert line.endswith("; and 18 more")
