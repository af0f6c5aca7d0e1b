"""What a server checks before it does anything: tokens, certificate, address, and whether strangers could write."""

import dataclasses
import socket
import subprocess

import pytest

from nws.base.errors import ConfigError, ServiceError
from nws.server.serve import bind, serve
from nws.server.setup import prepare, resolve
from nws.server.tokens import create_token
from nws.service.serviceconfig import Listen, ServiceConfig, Tls, TokenFiles
from nws.sources.prometheussettings import PrometheusSettings


@pytest.fixture
def token(tmp_path):
    create_token(tmp_path / "admin.token")
    return tmp_path / "admin.token"


def config(**options):
    return dataclasses.replace(ServiceConfig(), **options)


ANYWHERE = Listen(host="0.0.0.0", port=8090)


def test_on_loopback_no_token_is_needed(tmp_path):
    setup = prepare(config(), store=tmp_path / "weather.db")
    assert setup.url(8090) == "http://127.0.0.1:8090"
    assert setup.warnings == ()
    assert "none: any program on this host has every role" in "\n".join(setup.lines())


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_beyond_loopback_a_token_is_needed_and_the_message_says_how(host):
    with pytest.raises(ConfigError) as error:
        prepare(config(listen=Listen(host=host, port=8090)))
    assert "no tokens are set" in str(error.value)
    assert "nws token FILE" in str(error.value)
    assert "tokens:" in str(error.value)


def test_name_that_begins_like_loopback_is_looked_up(monkeypatch):
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *a, **k: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.1.2.3", 80))]
    )
    with pytest.raises(ConfigError, match="no tokens are set"):
        prepare(config(listen=Listen(host="127.example.org", port=80)))


def test_tokens_without_tls_beyond_loopback_are_worth_a_warning(token):
    setup = prepare(config(listen=ANYWHERE, tokens=TokenFiles(admin=(token,))))
    assert "tokens travel unencrypted" in setup.warnings[0]
    assert "tls:" in setup.warnings[0]


def test_tokens_with_tls_are_not(token, certificate):
    setup = prepare(config(listen=ANYWHERE, tokens=TokenFiles(admin=(token,)), tls=certificate))
    assert setup.warnings == ()
    assert setup.url(1).startswith("https://")


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    tls = Tls(certificate=tmp_path / "no.crt", key=tmp_path / "no.key")
    tokens = TokenFiles(read=(tmp_path / "no.token",))
    with pytest.raises(ConfigError) as error:
        prepare(config(listen=Listen(host="no such host", port=1), tokens=tokens, tls=tls))
    assert len(error.value.problems) == 3


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("genpkey -algorithm ed25519", "expected a certificate"),
        ("pkcs8 -topk8 -in {key} -passout pass:secret", "without a passphrase"),
    ],
)
def test_key_that_does_not_fit_is_refused_and_asks_nobody(certificate, tmp_path, made, message):
    key = tmp_path / "a.key"
    words = f"openssl {made.format(key=certificate.key)} -out {key}".split()
    subprocess.run(words, check=True, timeout=60)
    with pytest.raises(ConfigError, match=message):
        prepare(config(tls=Tls(certificate=certificate.certificate, key=key)))


def test_key_that_everybody_reads_is_worth_a_warning(certificate, tmp_path):
    key = tmp_path / "open.key"
    key.write_bytes(certificate.key.read_bytes())
    key.chmod(0o644)
    setup = prepare(config(tls=Tls(certificate=certificate.certificate, key=key)))
    assert f"chmod o= {key}" in setup.warnings[0]


def test_passwords_in_the_address_of_a_source_are_refused_and_not_shown():
    with pytest.raises(ConfigError) as refused:
        PrometheusSettings(url="http://user:secret@prometheus:9090/x")
    assert "holds a name or password" in str(refused.value)
    assert "secret" not in str(refused.value)
    source = PrometheusSettings(url="http://prometheus:9090/x")
    assert "http://prometheus:9090/x" in "\n".join(prepare(config(prometheus=(source,))).lines())


def test_port_that_is_taken_is_named_with_how_to_find_who_has_it():
    with bind(socket.AF_INET, "127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"taken by another program; find it with `ss -ltnp 'sport = :{port}'"
        ):
            bind(socket.AF_INET, "127.0.0.1", port)


def test_address_of_another_host_is_refused():
    with pytest.raises(ConfigError, match="is no address of this host"):
        bind(socket.AF_INET, "192.0.2.1", 0)


def test_address_with_both_kinds_is_the_old_one(monkeypatch):
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 80, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: both)
    assert resolve(Listen(host="localhost", port=80)) == (socket.AF_INET, "127.0.0.1")


def test_server_that_ends_before_it_answers_is_an_error(tmp_path, monkeypatch):
    async def fails(self, sockets=None):
        self.should_exit = True

    monkeypatch.setattr("nws.server.serve._Server.startup", fails)
    setup = prepare(config(listen=Listen(host="127.0.0.1", port=0)), store=tmp_path / "weather.db")
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:\d+: the server did not start; see its log"):
        serve(setup)
