"""Whole sensors as processes: registering, outages, deaths, clocks that are set, clean ends."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from nws.base.errors import ProbeError
from nws.cli import main
from nws.daemon.daemon import ECHO_PORTS, SensorDaemon, SensorSettings
from nws.sensors.network import EchoConnection
from tests.transcripts import recorded, text_of

HERE, THERE, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def series_of(host):
    return {f"cpu.new@{host}", f"cpu.running@{host}", f"cpu.capacity@{host}", f"memory.free@{host}"}


def pairs_seen(server, since=0):
    return {s for s, *_ in server.samples[since:] if s.startswith("network.bandwidth@")}


def pairs_among(*hosts):
    return {f"network.bandwidth@{a}>{b}" for a in hosts for b in hosts if a != b}


def test_two_hosts_register_measure_themselves_and_each_other(stub, sensor):
    server = stub()
    a, b = sensor(server.url, "a", HERE, "--site", "east"), sensor(server.url, "b", THERE)
    wanted = series_of("a") | series_of("b") | pairs_among("a", "b")
    server.until(lambda: wanted <= {s for s, *_ in server.samples})
    facts = server.hosts["a"]
    assert (facts["address"], facts["site"]) == (HERE, "east")
    assert facts["port"] > 0
    assert facts["cpus"] >= 1
    assert facts["memory_bytes"] > 1 << 20
    status = dict(server.statuses)["a"]
    assert status["done"] > 0
    assert status["rss_bytes"] > 0
    assert (a.end(), b.end()) == (0, 0)
    for said in (a.said, b.said):
        for job in ("cpu", "sample", "memory", "network", "deliver"):
            assert f"\n{job}: " in said
        assert "\n0 samples wait in " in said
        assert "; 0 lost" in said
    # every series by itself is in the order of its times, and no sample came twice
    for one in {s for s, *_ in server.samples}:
        times = [t for _, t, _ in server.named(one)]
        assert times == sorted(set(times))


def test_who_is_in_no_clique_with_it_is_hung_up_on(stub, sensor):
    server = stub()
    sensor(server.url, "a", HERE)
    server.until(lambda: "a" in server.hosts)
    with pytest.raises(ProbeError, match="hung up on us"):
        EchoConnection("a", (HERE, server.hosts["a"]["port"]), source=THIRD)


@pytest.mark.nightly
def test_measurements_of_an_outage_come_later_in_order_and_once(stub, sensor):
    server = stub()
    a = sensor(server.url, "a", HERE)
    server.until(lambda: server.named("cpu.new@a"))
    server.close()
    a.heard("measurements are kept until it answers")
    # long enough for a few more; then the process dies in the outage as well
    time.sleep(1.5)
    a.kill()
    a = sensor(server.url, "a", HERE)
    a.heard("measurements are kept until it answers")
    assert "0 samples wait" not in a.said.splitlines()[0]
    time.sleep(1.5)
    again = stub(port=server.port, keys=server.keys)
    again.samples, again.next, again.hosts = server.samples, server.next, server.hosts
    before = len(again.samples)
    again.until(
        lambda: again.statuses and again.statuses[-1][1]["buffered"] == 0 and len(again.samples) > before
    )
    assert a.end() == 0
    assert "server: answers again" in a.said
    for one in series_of("a"):
        times = [t for _, t, _ in again.named(one)]
        assert times == sorted(set(times))
    # both processes measured while nobody listened
    assert len(again.named("memory.free@a")[before // 4 :]) >= 4


def test_server_that_forgot_everything_is_told_again(stub, sensor, state_of_its_own):
    server = stub()
    a = sensor(server.url, "a", HERE)
    server.until(lambda: len(server.samples) > 3)
    key = (state_of_its_own / "sensor-a.key").read_text()
    server.forget("a")
    server.until(lambda: "a" in server.hosts)
    before = len(server.samples)
    server.until(lambda: len(server.samples) > before + 3)
    assert a.end() == 0
    assert (state_of_its_own / "sensor-a.key").read_text() == key
    assert server.keys["a"] == key.strip()
    assert (state_of_its_own / "sensor-a.key").stat().st_mode & 0o777 == 0o600


def test_restart_shows_the_key_it_brought(stub, sensor):
    server = stub()
    for _ in range(2):
        a = sensor(server.url, "a", HERE, "--for", "1")
        assert a.end(None) == 0
    shown = [h.get("X-NWS-Key") for m, p, h, _ in server.requests if p == "/v1/hosts/a"]
    assert len(set(shown)) == 1
    assert shown[0] == server.keys["a"]


def test_answer_to_the_registration_that_is_lost_costs_no_name(stub, sensor):
    server = stub()
    lost = []

    def lose(method, path, body):
        if path == "/v1/hosts/a" and not lost:
            # the server takes the host in, and the answer does not arrive
            lost.append(server.requests[-1][2]["X-NWS-Key"])
            server.keys["a"] = lost[0]
            return 500, "the answer is lost"
        return None

    server.refuse = lose
    a = sensor(server.url, "a", HERE)
    server.until(lambda: server.named("memory.free@a"))
    assert a.end() == 0
    assert server.keys["a"] == lost[0]


def test_sensor_killed_in_its_turn_costs_the_others_nothing(stub, sensor):
    server = stub(frame_s=0.8)
    hosts = {"a": HERE, "b": THERE, "c": THIRD}
    sensors = {name: sensor(server.url, name, address) for name, address in hosts.items()}
    server.until(lambda: pairs_seen(server) == pairs_among(*hosts))
    made = server.schedule()
    while made.turn("a", time.time()) is None:
        time.sleep(0.01)
    sensors["a"].kill()
    killed = time.time()
    server.until(lambda: {s for s, t, _ in server.samples if t > killed} >= pairs_among("b", "c"))
    assert [sensors[name].end() for name in "bc"] == [0, 0]
    assert "network: echo server of a at 127.0.0.2" in sensors["b"].said
    # nobody handed on the turn of the dead, which goes by unused: the plan is the old one, and everybody kept to it
    assert server.schedule() == made
    probes = [(s.partition("@")[2][0], t) for s, t, _ in server.samples if "bandwidth" in s and t > killed]
    assert all(made.turn(host, t) is not None for host, t in probes)


# this library lets no sleep until a time of the monotonic clock pass; Python's is one
_UNDER_FAKETIME = text_of("nws/daemon/daemons_under_faketime.txt")


# `test_periodic.py` has both for the jobs alone.
@pytest.mark.parametrize("step", [pytest.param("+1h", marks=pytest.mark.nightly), "-1h"])
def test_wall_clock_that_is_set_moves_no_sample_and_stops_no_job(stub, sensor, tmp_path, step):
    library = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
    if library is None:
        pytest.skip("libfaketime is not installed (Debian: faketime)")
    rc = tmp_path / "faketime"
    rc.write_text("+0\n")
    server = stub()
    a = sensor(
        server.url,
        "a",
        HERE,
        LD_PRELOAD=str(library),
        FAKETIME_TIMESTAMP_FILE=str(rc),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
        program=("-c", _UNDER_FAKETIME),
    )
    server.until(lambda: len(server.named("memory.free@a")) > 3)
    rc.write_text(f"{step}\n")
    before = len(server.samples)
    server.until(lambda: len({t for s, t, _ in server.samples[before:] if s == "memory.free@a"}) > 8)
    assert a.end() == 0
    now = time.time()
    times = [t for _, t, _ in server.named("memory.free@a")]
    assert all(now - 60 < t < now + 5 for t in times)
    assert times == sorted(times)


def test_host_whose_clock_is_wrong_delivers_in_the_servers_time(stub, sensor):
    server = stub(offset_s=7200.0)
    a, b = sensor(server.url, "a", HERE), sensor(server.url, "b", THERE)
    server.until(lambda: pairs_seen(server) == pairs_among("a", "b"))
    assert (a.end(), b.end()) == (0, 0)
    times = [t for s, t, _ in server.samples if s.startswith("network.")]
    assert all(abs(t - time.time() - 7200.0) < 60 for t in times)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_ends_it_cleanly(stub, sensor, number, code):
    # nothing is delivered by itself after the first time
    server = stub(every={"cpu": 0.5, "memory": 0.5, "deliver": 3600.0})
    a = sensor(server.url, "a", HERE)
    server.until(lambda: "a" in server.hosts)
    time.sleep(1.5)
    before = len(server.samples)
    pid = a.process.pid
    assert a.end(number) == code
    assert len(server.samples) > before
    assert "\n0 samples wait" in a.said
    assert not Path(f"/proc/{pid}").exists()
    children = subprocess.run(["ps", "-o", "pid=", "-g", str(pid)], capture_output=True, text=True)
    assert children.stdout.strip() == ""


def test_without_a_server_the_end_does_not_wait(sensor, state_of_its_own):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    a = sensor(url, "a", HERE, "--for", "1.5")
    assert a.end(None) == 0
    assert "nobody listens there" in a.said
    assert "deliver: 0 of " in a.said
    assert (state_of_its_own / "sensor-a.db").exists()


def test_hup_reads_the_token_again(stub, sensor, tmp_path):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("old\n")
    server = stub()
    a = sensor(server.url, "a", HERE, "--token-file", str(token))

    def shown(word):
        return any(h.get("Authorization") == f"Bearer {word}" for _, _, h, _ in server.requests)

    server.until(lambda: shown("old"))
    token.write_text("new\n")
    a.process.send_signal(signal.SIGHUP)
    server.until(lambda: shown("new"))
    assert a.end() == 0


def test_second_sensor_of_the_same_host_is_refused(stub, sensor):
    server = stub()
    a = sensor(server.url, "a", HERE)
    server.until(lambda: "a" in server.hosts)
    second = sensor(server.url, "a", THERE)
    assert second.end(None) == 4
    assert f"a sensor of a runs already, process {a.process.pid}" in second.said
    assert a.end() == 0


@recorded("nws/daemon/sensor_problems.txt", "options")
def test_what_it_cannot_start_with(capsys, program_signals, answered, options):
    with pytest.raises(SystemExit) as ended:
        main(["sensor", "--server", "http://127.0.0.1:9", "--host", "a", "--address", HERE, *options])
    answered([f"exit {ended.value.code}", *capsys.readouterr().err.splitlines()])


def test_echo_port_that_is_taken(capsys, program_signals):
    with socket.create_server((HERE, 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit) as ended:
            main(["sensor", "--server", "http://127.0.0.1:9", "--address", HERE, "--echo-port", port])
    assert ended.value.code == 5
    assert "choose a free port, or 0 for any" in capsys.readouterr().err


#: Of this process: another test run on the machine uses the same ports.
OWN_LOOPBACK = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255 | 1}"


def test_sensors_of_one_host_take_the_next_echo_port(tmp_path):
    def daemon(host):
        return SensorDaemon(
            SensorSettings(server="http://127.0.0.1:9", host=host, state=tmp_path, address=OWN_LOOPBACK),
            say=lambda line: None,
        )

    with daemon("a") as a, daemon("b") as b:
        ports = [one.registration()["port"] for one in (a, b)]
    assert ports == [ECHO_PORTS[0], ECHO_PORTS[1]]


def test_echo_ports_in_use_are_named(tmp_path, capsys, program_signals):
    with ExitStack() as taken:
        for port in ECHO_PORTS:
            taken.enter_context(socket.create_server((OWN_LOOPBACK, port)))
        with pytest.raises(SystemExit) as ended:
            main(["sensor", "--server", "http://127.0.0.1:9", "--address", OWN_LOOPBACK])
    assert ended.value.code == 5
    assert "so are all ports from 8091" in capsys.readouterr().err


_SPACES = ("nws-test-a", "nws-test-b", "nws-test-s")


@pytest.fixture
def namespaces():
    """Three network namespaces on one bridge: two hosts and a server, each with its own interface."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")

    def ip(*words, check=True):
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if check and done.returncode:
            pytest.skip(
                f"network namespaces cannot be made here: ip {' '.join(words)}: {done.stderr.strip()}"
            )

    tag = f"{os.getpid() % 100000}"
    names = [f"{space}{tag}" for space in _SPACES]
    bridge = f"nwsb{tag}"
    try:
        for name in names:
            ip("netns", "add", name)
        # the bridge is in the server's namespace, so that nothing shows in that of the machine
        inside = ("-n", names[2])
        ip(*inside, "link", "add", bridge, "type", "bridge")
        ip(*inside, "addr", "add", "10.213.77.1/24", "dev", bridge)
        ip(*inside, "link", "set", bridge, "up")
        ip(*inside, "link", "set", "lo", "up")
        for number, name in enumerate(names[:2]):
            ip(
                "-n",
                name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"v{number}",
                "netns",
                names[2],
            )
            ip(*inside, "link", "set", f"v{number}", "master", bridge)
            ip(*inside, "link", "set", f"v{number}", "up")
            ip("-n", name, "addr", "add", f"10.213.77.{number + 2}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name, check=False)


_STUB_PROGRAM = text_of("nws/daemon/daemons_stub_program.txt")


def test_hosts_with_interfaces_of_their_own(namespaces, sensor):
    """Addresses as the hosts find them by themselves: towards the server, for their name is none of theirs."""
    a, b, s = namespaces
    stub_file = str(Path(__file__).with_name("stub.py"))
    server = subprocess.Popen(
        ["ip", "netns", "exec", s, "python3", "-c", _STUB_PROGRAM, stub_file],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    with server:
        port = server.stdout.readline().strip()
        url = f"http://10.213.77.1:{port}"
        started = [
            sensor(url, "a", "eth0", prefix=("ip", "netns", "exec", a)),
            sensor(url, "b", "10.213.77.3", prefix=("ip", "netns", "exec", b)),
        ]
        assert server.stdout.readline().strip() == "{'a': '10.213.77.2', 'b': '10.213.77.3'}"
        assert server.wait(30) == 0
        for one in started:
            one.end()
