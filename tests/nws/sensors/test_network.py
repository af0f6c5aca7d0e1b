"""Probes over real sockets, and over servers that misbehave."""

import socket
import sys
import threading
import time
from contextlib import suppress
from unittest.mock import Mock

import pytest

from nws.base.errors import ProbeError
from nws.sensors import echo
from nws.sensors.echo import ACK, HEADER, MOST_BYTES, READY, EchoServer
from nws.sensors.network import EchoConnection, Losses, NetworkSensor, ProbePlan, bandwidth_Bps, round_trip_s

QUICK = ProbePlan(round_trips=3, enough_s=0.001, most_bytes=1 << 20, timeout_s=2.0)


class FakeLink:
    """A link of known latency and bandwidth, without a network."""

    def __init__(self, round_trip, bandwidth, left=float("inf")):
        self.round_trip, self.bandwidth, self.left_s, self.sent = round_trip, bandwidth, left, []

    def exchange_s(self, length):
        self.sent.append(length)
        took = self.round_trip + (length / self.bandwidth if length > 1 else 0.0)
        self.left_s -= took
        return took


@pytest.fixture
def impostor():
    """Starts a server that says the given bytes to its one client, then reads, then hangs up."""
    servers = []

    def start(*said):
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            connection, _ = listener.accept()
            # the client may hang up on us first
            with connection, suppress(ConnectionError):
                for text in said:
                    connection.sendall(text)
                    connection.recv(100)

        thread = threading.Thread(target=serve)
        thread.start()
        servers.append((listener, thread))
        return listener.getsockname()

    yield start
    for listener, thread in servers:
        thread.join()
        listener.close()


def test_without_an_address_it_probes_the_loopback():
    latency, bandwidth = NetworkSensor(host="a", peer="a", plan=QUICK, clock=lambda: 7.0).measure()
    assert (str(latency.series), str(bandwidth.series)) == ("network.latency@a>a", "network.bandwidth@a>a")
    assert latency.t == bandwidth.t == 7.0
    assert 0 < latency.value < 1
    assert bandwidth.value > 1e5


def test_peer_by_address():
    with EchoServer() as server:
        sensor = NetworkSensor(host="a", peer="b", address=server.address)
        assert [str(m.series) for m in sensor.measure()] == ["network.latency@a>b", "network.bandwidth@a>b"]


class LossyLink:
    """A connection on which so many messages of each probe are sent again."""

    def __init__(self, *repeated, left=float("inf")):
        self.counts, self.left_s = list(repeated), left

    def repeated(self, messages):
        count = self.counts.pop(0)
        if count is None:
            raise ProbeError("not acknowledged")
        return count


def test_losses_of_clean_link_are_not_stated():
    link, losses = LossyLink(0, 1, 1, None), Losses()
    assert [losses.share("b", link) for _ in range(4)] == [None] * 4


def test_losses_of_lossy_link_follow_newest_probes():
    link, losses = LossyLink(1, 3, None, 0, 0, 0, 0, 0, 0, 0, 0), Losses(messages=50, probes=4)
    found = [losses.share("b", link) for _ in range(11)]
    assert found == [None, 0.04, None, pytest.approx(4 / 150), 0.02, 0.015, 0, 0, 0, 0, 0]


def test_losses_without_time_are_not_measured():
    assert Losses().share("b", LossyLink(left=0.1)) is None


def test_sensor_with_losses_counts_on_real_socket():
    with EchoServer() as server:
        sensor = NetworkSensor(host="a", peer="b", address=server.address, plan=QUICK, losses=Losses())
        assert len(sensor.measure()) == 2


def test_latency_is_half_the_median_round_trip_and_the_first_is_not_counted():
    link = FakeLink(0.002, 1e9)
    assert round_trip_s(link, 5) == pytest.approx(0.002)
    assert link.sent == [1] * 6


@pytest.mark.parametrize("bandwidth", [1e5, 1.25e8, 1e9])
def test_bandwidth_has_the_latency_taken_off(bandwidth):
    assert bandwidth_Bps(FakeLink(0.05, bandwidth), 0.05, ProbePlan()) == pytest.approx(bandwidth)


def test_slow_link_is_probed_with_one_length_a_fast_one_with_growing_ones():
    slow, fast = FakeLink(0.0, 1e5), FakeLink(0.0, 1e9)
    for link in (slow, fast):
        bandwidth_Bps(link, 0.0, ProbePlan())
    assert slow.sent == [ProbePlan().first_bytes] * 3
    assert fast.sent[0] == ProbePlan().first_bytes
    assert fast.sent[-1] >= 0.01 * 1e9
    assert fast.sent[-3:] == [fast.sent[-1]] * 3


def test_on_a_long_way_a_transfer_outlasts_two_round_trips():
    link = FakeLink(0.08, 1e6)
    assert bandwidth_Bps(link, 0.08, ProbePlan()) == pytest.approx(1e6)
    assert link.sent[-1] >= 2 * 0.08 * 1e6


def test_where_time_is_short_fewer_transfers_count():
    link = FakeLink(0.0, 1e4, left=1.1)
    assert bandwidth_Bps(link, 0.0, ProbePlan()) == pytest.approx(1e4)
    assert link.sent == [ProbePlan().first_bytes]
    assert link.left_s > 0


@pytest.mark.parametrize("bandwidth", [1e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("round_trip", [0.0001, 0.02, 0.2])
def test_probe_on_any_link_is_through_within_a_turn(bandwidth, round_trip):
    link = FakeLink(round_trip, bandwidth, left=1.8)
    bandwidth_Bps(link, round_trip, ProbePlan())
    assert link.left_s > 0


def test_no_transfer_is_longer_than_allowed():
    link = FakeLink(0.0, 1e12)
    bandwidth_Bps(link, 0.0, QUICK)
    assert max(link.sent) == QUICK.most_bytes


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(
        ProbeError, match=rf"of b at 127.0.0.1 port {address[1]}: cannot connect: .*is it running"
    ):
        NetworkSensor(host="a", peer="b", address=address, plan=QUICK).measure()


def test_something_else_listens(impostor):
    with pytest.raises(ProbeError, match=r"got b'S', expected b'R'.*check what listens there"):
        EchoConnection("b", impostor(b"SSH-2.0"))


def test_server_goes_away_in_the_middle(impostor):
    with (
        EchoConnection("b", impostor(READY)) as link,
        pytest.raises(ProbeError, match="1 bytes was answered by b''"),
    ):
        link.exchange_s(1)


def test_server_says_nothing():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ProbeError, match="no greeting: timed out"),
    ):
        EchoConnection("b", listener.getsockname(), timeout_s=0.05)


def test_full_server_says_so():
    busy = pytest.raises(ProbeError, match="busy with other probes; try again later")
    with EchoServer(connections=1) as server, EchoConnection("b", server.address), busy:
        EchoConnection("b", server.address)


def test_place_is_free_again_when_a_client_has_left():
    with EchoServer(connections=1) as server:
        EchoConnection("b", server.address).__exit__(None, None, None)
        for _ in range(1000):
            with suppress(ProbeError), EchoConnection("b", server.address) as link:
                assert link.exchange_s(1) > 0
                break
        else:
            pytest.fail("the place of the client that left was never given to another")


def test_closing_ends_connections_and_threads():
    before = threading.active_count()
    server = EchoServer()
    link = EchoConnection("b", server.address)
    link.exchange_s(1)
    server.close()
    server.close()
    with link, pytest.raises(ProbeError):
        link.exchange_s(1)
    assert threading.active_count() == before


def test_silent_client_is_closed():
    with EchoServer(silence_s=0.05) as server, socket.create_connection(server.address, timeout=2) as client:
        assert client.recv(1) == READY
        assert client.recv(1) == b""


def test_message_longer_than_allowed_ends_the_connection():
    with EchoServer() as server, socket.create_connection(server.address, timeout=2) as client:
        assert client.recv(1) == READY
        client.sendall(HEADER.pack(1) + b"x")
        assert client.recv(1) == ACK
        client.sendall(HEADER.pack(MOST_BYTES + 1))
        assert client.recv(1) == b""


def test_port_that_is_taken():
    with (
        EchoServer() as server,
        pytest.raises(ProbeError, match=r"cannot listen on 127.0.0.1 port .*or 0 for any"),
    ):
        EchoServer(port=server.address[1])


def test_probe_ends_with_its_time_even_if_the_server_is_silent(impostor):
    with pytest.raises(ProbeError, match="1 bytes was not acknowledged before the time for probes was over"):
        NetworkSensor(host="a", peer="b", address=impostor(READY, b""), plan=QUICK).measure(within_s=0.05)
    sensor = NetworkSensor(host="a", peer="b", address=("127.0.0.1", 9), plan=QUICK)
    with pytest.raises(ProbeError, match="cannot connect before the time"):
        sensor.measure(within_s=0.0)


def test_failed_bandwidth_probe_stores_nothing_not_even_the_latency_before_it():
    """A fault of the original: failed bandwidth probes went into the series as values."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(READY)
            for _ in range(1 + QUICK.round_trips):
                connection.recv(HEADER.size + 1)
                connection.sendall(ACK)
            # it dies in the middle of the first transfer
            connection.recv(100)

    thread = threading.Thread(target=serve)
    thread.start()
    sensor = NetworkSensor(host="a", peer="b", address=listener.getsockname(), plan=QUICK)
    with pytest.raises(ProbeError, match=f"a message of {QUICK.first_bytes} bytes was"):
        sensor.measure()
    thread.join()
    listener.close()


def test_only_the_transfer_is_timed_not_the_exchange_around_it():
    """A fault of the original: connecting, greeting and the round trip were timed as transfer."""
    link = FakeLink(0.5, 2e6)
    assert bandwidth_Bps(link, round_trip_s(link, 3), ProbePlan()) == pytest.approx(2e6)


def test_stranger_is_hung_up_on_without_a_word():
    with EchoServer(admits=lambda address: address == "192.0.2.7") as server:
        with pytest.raises(ProbeError, match="hung up on us, as it does on hosts that are in no clique"):
            EchoConnection("b", server.address)
        with EchoServer(admits=lambda address: address == "127.0.0.3") as other:
            EchoConnection("b", other.address, source="127.0.0.3").__exit__(None, None, None)


def test_place_that_fell_silent_goes_to_the_next_client():
    with (
        EchoServer(connections=1, stale_s=0.0) as server,
        EchoConnection("b", server.address) as dead,
        EchoConnection("b", server.address) as link,
    ):
        assert link.exchange_s(100_000) > 0
        with pytest.raises(ProbeError):
            dead.exchange_s(1)


def test_ipv6():
    try:
        server = EchoServer("::1")
    except ProbeError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    with server, EchoConnection("b", server.address, source="::1") as link:
        assert link.exchange_s(1) > 0


def test_echo_server_connection_without_memory_is_closed(monkeypatch):
    monkeypatch.setattr(
        echo, "memoryview", Mock(side_effect=[MemoryError, memoryview(bytearray(65536))]), raising=False
    )
    with EchoServer() as server:
        for expected in (b"", ACK):
            with socket.create_connection(server.address, timeout=10) as client:
                assert client.recv(len(READY)) == READY
                with suppress(ConnectionError):
                    client.sendall(HEADER.pack(1) + b"x")
                    assert client.recv(1) == expected


def test_messages_that_arrived_twice_were_not_lost(monkeypatch):
    counts = iter([(2, 1), (9, 7)])

    def info(self, level, option, size):
        again, twice = (count.to_bytes(4, sys.byteorder) for count in next(counts))
        return (bytes(100) + again + bytes(112) + twice)[:size]

    until = time.perf_counter() + 10.0
    with EchoServer() as server, EchoConnection("peer", server.address, until=until) as link:
        monkeypatch.setattr(socket.socket, "getsockopt", info)
        assert link.repeated(10) == 1
