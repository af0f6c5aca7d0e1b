"""What does not come from a holder of the key, in its place and in time, is refused."""

import time

import pytest

from apples.daemons.ipc.timer import raw
from apples.daemons.ipc.wire import (
    CLOCK_RESET_S,
    HEARTBEAT_BYTES,
    UNTRUSTED_LINE,
    DatagramSeal,
    Forged,
    Freshness,
    HeartbeatMessage,
    Lines,
    PresenceMessage,
    Seal,
    derive,
    random_word,
)
from apples.daemons.nodemessages import TO_MANAGER, legal
from apples.daemons.paths import new_key, read_key
from apples.errors import ConfigError

KEY = b"k" * 32


def pair(key=KEY, other=KEY):
    return Seal(key, ours="node", theirs="manager"), Seal(other, ours="manager", theirs="node")


def test_lines_arrive_as_they_were_sent():
    node, manager = pair()
    for text in (b'{"a":1}', '{"b":[null,"ü"]}'.encode()):
        assert manager.open(node.line(text).rstrip(b"\n")) == text


def refused(how):
    """A line as it reaches the side that must refuse it, and this side."""
    node, manager = pair(other=derive(KEY, "stream", "x") if how == "another key" else KEY)
    first, second = (node.line(text).rstrip(b"\n") for text in (b'{"a":1}', b'{"b":2}'))
    if how == "a second time":
        manager.open(first)
    if how == "by its sender":
        manager = Seal(KEY, ours="node", theirs="manager")
    changes = {
        "out of its place": second,
        "changed": first.replace(b"1", b"2"),
        "cut": first[:10],
        "empty": b"",
    }
    return changes.get(how, first), manager


@pytest.mark.parametrize(
    "how",
    ["a second time", "out of its place", "by its sender", "another key", "changed", "cut", "empty"],
)
def test_line_that_is_not_the_next_of_the_other_side_is_refused(how):
    line, side = refused(how)
    with pytest.raises(Forged, match="not sealed with our key, or not in its place"):
        side.open(line)


@pytest.mark.parametrize("text", [b"[1]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(Forged):
        legal(TO_MANAGER, text)


def test_lines_are_cut_wherever_they_were_torn():
    lines = Lines()
    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\n\nthree")) == [b"two", b""]


def test_stranger_may_not_fill_the_memory():
    lines = Lines()
    with pytest.raises(Forged, match="more than 4096 bytes"):
        list(lines.feed(b"x" * (UNTRUSTED_LINE + 1)))


def beat(number=1, sent_s=100.0):
    return HeartbeatMessage(number=number, version=3, slot=-1, sent_s=sent_s, slice_s=0.1)


def test_beat_is_one_small_datagram_however_many_nodes_there_are():
    seal = DatagramSeal(KEY, random_word())
    datagram = seal.beat(beat())
    assert len(datagram) == HEARTBEAT_BYTES < 100
    assert seal.open_beat(datagram) == beat()


def test_beat_of_another_session_or_key_is_refused():
    session = random_word()
    seal = DatagramSeal(KEY, session)
    for other in (DatagramSeal(KEY, random_word()), DatagramSeal(b"x" * 32, session)):
        with pytest.raises(Forged):
            seal.open_beat(other.beat(beat()))


def test_bit_of_a_beat_counts():
    seal = DatagramSeal(KEY, random_word())
    datagram = seal.beat(beat())
    for position in range(len(datagram)):
        changed = bytearray(datagram)
        changed[position] ^= 1
        with pytest.raises(Forged):
            seal.open_beat(bytes(changed))


def test_datagram_of_the_other_kind_is_refused():
    seal = DatagramSeal(KEY, random_word())
    here = PresenceMessage(random_word(), 5, silent=False, multicast=True)
    assert seal.open_here(seal.here(here)) == here
    with pytest.raises(Forged):
        seal.open_beat(seal.here(here))
    with pytest.raises(Forged):
        seal.open_here(seal.beat(beat()))


class TestFreshness:
    def test_each_beat_once_and_none_that_is_older(self):
        fresh = Freshness()
        admitted = [fresh.admits(beat(n, 100 + n / 10), 7 + n / 10, late_s=0.2) for n in (1, 2, 2, 1, 4, 3)]
        assert admitted == [True, True, False, False, True, False]

    def test_clocks_need_not_agree_but_a_beat_that_was_held_up_is_refused(self):
        fresh = Freshness()
        assert fresh.admits(beat(1, 100.0), 5.0, late_s=0.2)
        assert not fresh.admits(beat(2, 100.1), 5.31, late_s=0.2)
        assert fresh.admits(beat(3, 100.4), 5.41, late_s=0.2)

    def test_clock_that_drifts_is_followed(self):
        fresh = Freshness()
        for n in range(1, 100_000):
            assert fresh.admits(beat(n, 0.1 * n), 0.1 * n * (1 + 5e-5), late_s=0.2)

    def test_clock_that_is_put_back_is_followed_after_three_seconds(self):
        fresh, changed_s = Freshness(), 0.5
        assert all(fresh.admits(beat(n, n / 10), n / 10, late_s=0.2) for n in range(1, 100))
        admitted = [fresh.admits(beat(n, n / 10), n / 10 + changed_s, late_s=0.2) for n in range(100, 140)]
        assert admitted == [False] * round(CLOCK_RESET_S / 0.1) + [True] * 10

    def test_one_beat_that_is_repeated_for_long_is_no_changed_clock(self):
        fresh = Freshness()
        assert fresh.admits(beat(1, 0.1), 0.1, late_s=0.2)
        assert not any(fresh.admits(beat(2, 0.2), 1.0 + n / 10, late_s=0.2) for n in range(100))
        assert fresh.admits(beat(3, 11.0), 11.0, late_s=0.2)

    def test_beats_that_are_held_up_now_and_then_stay_refused(self):
        fresh = Freshness()
        admitted = [
            fresh.admits(beat(n, n / 10), n / 10 + 0.3 * (n % 20 != 0), late_s=0.2) for n in range(20, 400)
        ]
        assert admitted == [n % 20 == 0 for n in range(20, 400)]

    def test_beats_are_stamped_by_a_clock_that_nothing_slews(self):
        before = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
        assert before <= raw() <= time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


def test_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    path = tmp_path / "key"
    new_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_key(path)) == 64
    with pytest.raises(ConfigError, match="is there already; remove it first"):
        new_key(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"others may read it \(mode 0640\); run: chmod 600"):
        read_key(path)


@pytest.mark.parametrize(("text", "why"), [("short", "5 characters are no key"), ("", "not a key")])
def test_what_is_no_key_is_said_to_be_none(tmp_path, text, why):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=why):
        read_key(path)


def test_key_that_is_not_there_is_asked_for(tmp_path):
    with pytest.raises(ConfigError, match="apples manager --new-key"):
        read_key(tmp_path / "absent")
    with pytest.raises(ConfigError, match="cannot be made: No such file or directory; name another file"):
        new_key(tmp_path / "absent" / "key")
