"""Which address a host answers probes at."""

import socket

import pytest

from nws.base.errors import ProbeError, UsageError
from nws.daemon import interfaces
from nws.daemon.interfaces import choose_address, is_local


@pytest.fixture
def own_name(monkeypatch):
    """Makes the host's name resolve to these addresses."""

    def set_to(*addresses):
        real = socket.getaddrinfo

        def fake(host, *arguments, **options):
            if host == socket.gethostname():
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 0)) for a in addresses]
            return real(host, *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", fake)

    return set_to


def test_what_the_user_names_wins(own_name):
    own_name("127.0.0.9")
    assert choose_address("127.0.0.5", "http://192.0.2.1") == "127.0.0.5"


def test_interface_by_name():
    assert choose_address("lo", "http://192.0.2.1") == "127.0.0.1"


def test_hosts_own_name_if_it_is_an_address_of_this_machine_and_no_loopback(own_name, monkeypatch):
    monkeypatch.setattr(interfaces, "is_loopback", lambda a: a == "127.0.0.1")
    own_name("127.0.0.1", "192.0.2.77", "127.0.0.9")
    assert choose_address(None, "http://127.0.0.1:8090") == "127.0.0.9"


def test_address_towards_the_server_else(own_name):
    own_name("127.0.1.1")
    assert choose_address(None, "http://127.0.0.1:8090") == "127.0.0.1"
    assert choose_address(None, "https://localhost") in ("127.0.0.1", "::1")


def test_server_nobody_knows(own_name):
    own_name()
    with pytest.raises(ProbeError, match=r"server\.invalid: the server's address could not be looked up"):
        choose_address(None, "http://server.invalid")


@pytest.mark.parametrize("wanted", ["192.0.2.1", "0.0.0.0", "2001:db8::1"])
def test_address_of_another_machine(wanted):
    with pytest.raises(
        UsageError, match=rf"--address {wanted}: this machine has no such address; it has .*lo"
    ):
        choose_address(wanted, "http://127.0.0.1")


def test_interface_that_is_not_there():
    with pytest.raises(
        UsageError, match="no address and no interface of this machine is called that; it has"
    ):
        choose_address("eth77", "http://127.0.0.1")


def test_interface_without_an_address(monkeypatch):
    monkeypatch.setattr(interfaces, "_interfaces", lambda: {"eth7": ["fe80::1"]})
    with pytest.raises(UsageError, match="the interface has no address now; bring it up"):
        choose_address("eth7", "http://127.0.0.1")


def test_local_or_not():
    assert is_local("127.0.0.1")
    assert is_local("127.8.9.10")
    assert not is_local("192.0.2.1")
