"""`nws server` as a process: started, asked, ended by signals, and everything it refuses to start with."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import requests

from nws.cli import main

REGISTRATION = {"address": "127.0.0.1", "port": 4000}


class Process:
    """A server process. `url` once it answers, `lines` of its stderr, `end` waits for it."""

    def __init__(self, arguments, **options):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nws.cli", "server", *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            **options,
        )
        self.lines = []
        self.url = None
        for line in self._process.stderr:
            self.lines.append(line)
            found = re.search(r" at (https?://\S+), store", line)
            if found:
                self.url = found[1]
                break

    def signal(self, number):
        self._process.send_signal(number)

    def end(self):
        """Exit code, after all of stderr is read."""
        self.lines += self._process.stderr.readlines()
        self._process.stderr.close()
        return self._process.wait(timeout=60)

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self.end() if not self._process.stderr.closed else None


@pytest.fixture
def run(tmp_path):
    """`run("--listen", …)` starts a server process of the test's own."""
    started = []

    def begin(*arguments, **options):
        started.append(Process(arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.fixture
def nws(capsys, program_signals):
    """`nws("server", …)` in this process: (exit code, stdout, stderr)."""

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments])
        return end.value.code, *capsys.readouterr()

    return call


def post(url, path, body, **headers):
    return requests.post(url + path, json=body, headers=headers, timeout=20)


def test_server_is_ended_by_term_and_what_it_accepted_is_there_again(run, tmp_path, state_of_its_own):
    first = run("--listen", "127.0.0.1:0")
    assert first.url, first.lines
    key = post(first.url, "/v1/hosts/alpha", REGISTRATION).json()["key"]
    now = time.time()
    batch = {"series": ["cpu.new@alpha"], "index": [0, 0], "t": [now - 10, now], "value": [0.25, 0.5]}
    identity = {"X-NWS-Host": "alpha", "X-NWS-Key": key}
    assert post(first.url, "/v1/measurements", batch, **identity).json()["accepted"] == 2
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    assert "ended, state saved" in first.lines[-1]
    assert key not in "".join(first.lines)
    assert (state_of_its_own / "service.db").exists()

    second = run("--listen", "127.0.0.1:0")
    hosts = requests.get(second.url + "/v1/hosts", timeout=20).json()["hosts"]
    assert [h["name"] for h in hosts] == ["alpha"]
    forecasts = requests.get(second.url + "/v1/forecasts", timeout=20).json()["forecasts"]
    assert [(f["series"], f["samples"], f["last"]) for f in forecasts] == [("cpu.new@alpha", 2, 0.5)]
    assert post(second.url, "/v1/measurements", batch, **identity).status_code == 200, "the key is still good"
    second.signal(signal.SIGINT)
    assert second.end() == 130


def test_it_tells_systemd_when_it_is_ready_and_when_it_ends(run, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "JOURNAL_STREAM": "8:1"}
        process = run("--listen", "127.0.0.1:0", "--store", tmp_path / "weather.db", env=environment)
        ready, status = systemd.recv(200).splitlines()
        assert ready == b"READY=1"
        assert status.startswith(b"STATUS=listens at http://127.0.0.1:")
        assert process.lines[0].startswith("nws: INFO grid "), "a journal knows the time"
        process.signal(signal.SIGTERM)
        assert systemd.recv(100) == b"STOPPING=1"
        assert process.end() == 0


def test_certificate_makes_it_https_and_tokens_are_needed(run, nws, tmp_path, certificate):
    for name in ("write", "admin"):
        assert nws("token", tmp_path / f"{name}.token")[0] == 0
    settings = tmp_path / "weather.yaml"
    settings.write_text(
        "grid: lab\nlisten: 127.0.0.1:0\nstore: weather.db\n"
        "tokens: {write: [write.token], admin: [admin.token]}\n"
        f"tls: {{certificate: '{certificate.certificate}', key: '{certificate.key}'}}\n"
    )
    process = run("--config", settings)
    assert process.url.startswith("https://127.0.0.1:"), process.lines
    tokens = {name: (tmp_path / f"{name}.token").read_text().strip() for name in ("write", "admin")}
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(certificate.certificate)
        assert session.get(process.url + "/healthz", timeout=20).status_code == 200
        assert session.get(process.url + "/v1/hosts", timeout=20).status_code == 401
        for name, status in (("write", 403), ("admin", 200)):
            head = {"Authorization": f"Bearer {tokens[name]}"}
            assert session.get(process.url + "/v1/hosts", headers=head, timeout=20).status_code == status
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(process.url + "/healthz", timeout=20)
    process.signal(signal.SIGTERM)
    assert process.end() == 0
    assert (tmp_path / "weather.db").exists(), "relative to the settings file"
    for secret in tokens.values():
        assert secret not in "".join(process.lines)


def test_unfinished_handshakes_leave_it_answering(run, nws, tmp_path, certificate):
    assert nws("token", tmp_path / "admin.token")[0] == 0
    settings = tmp_path / "weather.yaml"
    settings.write_text(
        "grid: lab\nlisten: 127.0.0.1:0\nstore: weather.db\ntokens: {admin: [admin.token]}\n"
        f"tls: {{certificate: '{certificate.certificate}', key: '{certificate.key}'}}\n"
    )
    process = run("--config", settings)
    port = int(process.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(450)]
        began = time.monotonic()
        with requests.Session() as session:
            session.trust_env = False
            session.verify = str(certificate.certificate)
            assert session.get(process.url + "/healthz", timeout=20).status_code == 200
        assert time.monotonic() - began < 1.0
        idle[0].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b"", "the oldest handshakes of one address are ended at once"
    process.signal(signal.SIGTERM)
    assert process.end() == 0


def test_check_says_what_it_would_do_and_does_nothing(nws, tmp_path):
    settings = tmp_path / "weather.yaml"
    settings.write_text("grid: lab\nlisten: 127.0.0.1:0\nstore: weather.db\n")
    code, out, err = nws("server", "--config", settings, "--check")
    assert (code, err) == (0, "")
    assert "grid:        lab" in out
    assert f"store:       {tmp_path / 'weather.db'} (new)" in out
    assert not (tmp_path / "weather.db").exists()


def test_options_come_before_the_settings(nws, tmp_path):
    settings = tmp_path / "weather.yaml"
    settings.write_text("listen: 127.0.0.1:1\nstore: weather.db\n")
    code, out, _ = nws(
        "server", "--config", settings, "--listen", "[::1]:7", "--store", tmp_path / "other.db", "--check"
    )
    assert code == 0
    assert "http://[::1]:7" in out
    assert str(tmp_path / "other.db") in out


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_it_does_not_listen_beyond_this_host_without_a_token(nws, check):
    code, _, err = nws("server", "--listen", "0.0.0.0:0", *check)
    assert code == 2
    assert "no tokens are set: any client could write; make tokens with `nws token FILE`" in err


def test_token_that_others_can_read_is_refused(nws, tmp_path):
    token = tmp_path / "admin.token"
    token.write_text("t" * 20)
    token.chmod(0o644)
    settings = tmp_path / "weather.yaml"
    settings.write_text("tokens: {admin: [admin.token]}\n")
    code, _, err = nws("server", "--config", settings, "--check")
    assert code == 2
    assert f"chmod 600 '{token}'" in err


def test_port_that_is_taken_ends_it_with_a_message(nws):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = nws("server", "--listen", f"127.0.0.1:{port}")
    assert code == 2
    assert f"port {port}: is taken by another program" in err


def test_mistakes_in_the_settings_are_told_with_their_lines(nws, tmp_path):
    settings = tmp_path / "weather.yaml"
    settings.write_text("grid: lab\nlisten: nowhere\ncolour: red\n")
    code, _, err = nws("server", "--config", settings)
    assert code == 2
    assert f"{settings}:3: colour: unknown key" in err


def test_store_that_cannot_be_opened_ends_it_with_a_message(nws, tmp_path):
    (tmp_path / "weather.db").write_text("this is no database, it is a text of some length" * 100)
    code, _, err = nws("server", "--listen", "127.0.0.1:0", "--store", tmp_path / "weather.db")
    assert code == 4
    assert str(tmp_path / "weather.db") in err


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "no such host:80"])
def test_address_that_is_none_is_refused(nws, listen):
    code, _, err = nws("server", "--listen", listen, "--check")
    assert code == 2
    assert "listen" in err
