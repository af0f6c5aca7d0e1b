"""Addresses and tokens, as users write them."""

import pytest

from nws.base.errors import UsageError
from nws.client.endpoint import Endpoint, checked_url, read_token


@pytest.fixture
def token_file(tmp_path):
    """Makes a file with this content and mode."""

    def make(content=b"secret-word\n", mode=0o600):
        path = tmp_path / "token"
        path.write_bytes(content)
        path.chmod(mode)
        return path

    return make


@pytest.mark.parametrize(
    "url",
    ["http://alpha:8090", "https://alpha", "http://10.0.0.1:8090", "http://[::1]:8090", "https://a/nws"],
)
def test_addresses_of_services(url):
    assert checked_url(url) == checked_url(f"{url}/") == url


@pytest.mark.parametrize(
    "url", ["alpha:8090", "alpha", "", "ftp://alpha", "http://", "http://a:x", "http://a:99999", "http://a b"]
)
def test_what_is_no_address(url):
    with pytest.raises(UsageError, match=r"is no address of a service.*expected http://HOST:PORT or https"):
        checked_url(url)


def test_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(UsageError, match="at alpha holds a name or password; use a token file") as caught:
        checked_url("http://me:secret@alpha:8090")
    assert "secret" not in str(caught.value)


def test_more_than_an_address():
    with pytest.raises(UsageError, match="has more than an address"):
        checked_url("http://alpha:8090?token=x")


def test_token_is_the_word_in_its_file(token_file):
    assert read_token(token_file()) == "secret-word"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_token_that_others_may_read_is_refused(token_file, mode):
    path = token_file(mode=mode)
    with pytest.raises(UsageError, match=rf"others may read it \(mode {mode:04o}\); run: chmod 600"):
        read_token(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"a\0b", "ü".encode()])
def test_what_is_no_token(token_file, content):
    with pytest.raises(UsageError, match="not a token: expected one word of visible ASCII"):
        read_token(token_file(content))


def test_token_longer_than_any_is_not_read(token_file):
    with pytest.raises(UsageError, match="it has more than 4096 bytes"):
        read_token(token_file(b"x" * 4097))


def test_token_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="none: the token cannot be read: No such file or directory"):
        read_token(tmp_path / "none")


def test_environment_names_a_service(token_file):
    path = token_file()
    environ = {"NWS_SERVER": "http://alpha:8090/", "NWS_TOKEN_FILE": str(path), "NWS_CA": str(path)}
    assert Endpoint.from_environment(environ) == Endpoint(
        url="http://alpha:8090", token="secret-word", ca=path
    )
    assert Endpoint.from_environment({"NWS_TOKEN_FILE": str(path)}) is None
    assert Endpoint.from_environment({"NWS_SERVER": ""}) is None


def test_certificates_that_are_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"ca\.pem: no such file; it holds the certificates to trust"):
        Endpoint.of("https://alpha", ca=tmp_path / "ca.pem")
