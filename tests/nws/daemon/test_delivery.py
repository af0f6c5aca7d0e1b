"""Delivery against a server that answers as the test wants: order, pauses, refusals, keys, news."""

import json
import random
from contextlib import closing

import pytest

from nws.base.errors import ProbeError, ServiceError, ServiceUnreachable, UsageError
from nws.daemon.delivery import MOST_SAMPLES, NEWS_S, DeliveryJob
from nws.daemon.spool import Spool
from nws.links.cliques import Clique, schedule
from nws.series import Measurement, Series
from nws.timing.periodic import Counts
from nws.timing.steadyclock import SteadyClock
from tests.transcripts import replay, transcripts

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


class Session:
    """Worlds one after the other; each `run` tells its pauses, requests, stored values and lines of the log."""

    def __init__(self, directory):
        self._directory, self._number, self.world = directory, 0, None

    def world_of(self, *case):
        self.close()
        self._number += 1
        self.world = World(self._directory / f"{self._number}.db")

    def close(self):
        if self.world is not None:
            self.world.spool.close()

    def add(self, *values, series=CPU):
        self.world.add(*values, series=series)

    def add_foreign(self, *values):
        self.add(*values, series=BAD)

    def add_range(self, first, end):
        self.add(*range(int(first), int(end)))

    def run(self, times="1"):
        return self._told(lambda: [self.world.run() for _ in range(int(times))])

    def flush(self, within_s):
        return self._told(lambda: self.world.delivery.flush(float(within_s)) or [])

    def _told(self, act):
        w, server = self.world, self.world.server
        before = len(server.log), len(server.kept), len(w.said), len(w.learnt)
        pauses = act()
        requests, stored, said, learnt = (
            new[start:]
            for new, start in zip((server.log, server.kept, w.said, w.learnt), before, strict=True)
        )
        spans = f"{stored[0]:g} to {stored[-1]:g}, {len(stored)} of them" if len(stored) > 9 else stored
        lines = [
            f"pauses {[round(pause, 1) for pause in pauses]}, requests {requests}, stored {spans}",
            f"waiting {len(w.spool)}, refused {w.delivery.samples.refused}, done {w.counts.done}, "
            f"failed {w.counts.failed}, keys {w.keys}, connects {w.connects}, periods {w.periods}",
        ]
        return [*lines, *(f"learnt {one}" for one in learnt), *"\n".join(said).splitlines()]

    def fail(self, kind, *words, retry=None):
        self.world.server.fail = self._error(kind, words, retry)

    def fail_foreign(self, kind, *words, retry=None):
        error = self._error(kind, words, retry)
        self.world.server.fail = lambda batch: error if any(m.series == BAD for m in batch) else None

    def fail_registration(self, kind, *words, retry=None):
        self.world.server.fail_registration = self._error(kind, words, retry)

    @staticmethod
    def _error(kind, words, retry):
        text = " ".join(words)
        if kind.isdigit():
            return refused(int(kind), text, retry_after_s=None if retry is None else float(retry))
        return ServiceUnreachable(text) if kind == "unreachable" else None

    def answer(self, *words):
        self.world.server.answer = json.loads(" ".join(words))

    def address(self, address, *why):
        self.world.no_address = ProbeError(" ".join(why)) if address == "none" else None
        if address != "none":
            self.world.registration = lambda: {"address": address, "port": 9}

    def token(self, *why):
        self.world.no_token = UsageError(" ".join(why)) if why else None

    def reload(self):
        self.world.delivery.reload()

    def server_forgets(self):
        self.world.server.registered, self.world.server.key = False, None

    def server_schedules(self, version):
        self.world.server.version = int(version)


@transcripts("nws/daemon/delivery")
def test_delivery_conversation_is_the_recorded_one(tmp_path, transcript, golden):
    with closing(Session(tmp_path)) as session:
        golden(transcript, replay(transcript, session))


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


def test_peers_that_moved_are_asked_for_now_and_then(world):
    world.run()
    start = world.t
    asked = world.server.log.count("schedule")
    for _ in range(12):
        world.moved = True
        world.run()
    most = (world.t - start) / NEWS_S + 2
    assert 1 <= world.server.log.count("schedule") - asked <= most
