"""Tokens and certificates of a deployment: private, kept, renewed, and accepted by a TLS client."""

import shutil
import socket
import ssl
import stat
import threading

import pytest

from apples_deploy import authority
from apples_deploy.authority import Authority
from nws.base.errors import StoreError
from nws.base.lock import FileLock

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def test_secrets_are_private_and_kept(tmp_path):
    one = Authority(tmp_path / "deploy")
    token = one.secret("a.token")
    assert len(token.strip()) >= 43
    assert Authority(tmp_path / "deploy").secret("a.token") == token != one.secret("b.token")
    assert set(one.secrets(".token")) == {"a", "b"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deploy").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "deploy").stat().st_mode) == 0o700
    one.forget("a.token")
    assert one.secret("a.token") != token


def test_authority_that_others_may_write_is_refused(tmp_path):
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy").chmod(0o777)
    with pytest.raises(StoreError, match="other users may write there"):
        Authority(tmp_path / "deploy")


def test_authority_in_use_by_another_command_is_refused(tmp_path):
    one = Authority(tmp_path)
    with FileLock(tmp_path / ".lock", description="process 7"):
        for make in (lambda: one.certificate(["a"]), lambda: one.secret("a.token")):
            with pytest.raises(StoreError, match="in use by process 7"):
                make()
    assert not (tmp_path / "ca.key").exists()


def test_certificate_is_accepted_for_its_names_only(tmp_path):
    made = Authority(tmp_path).certificate(["localhost", "127.0.0.1"])
    (tmp_path / "chain.pem").write_text(made.certificate + made.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "chain.pem")
    client = ssl.create_default_context(cadata=made.authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    def served(listener):
        with listener.accept()[0] as accepted:
            try:
                server.wrap_socket(accepted, server_side=True).close()
            except (ssl.SSLError, OSError):
                return

    for name, accepted in (("localhost", True), ("127.0.0.1", True), ("elsewhere", False)):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=served, args=(listener,))
            thread.start()
            with socket.create_connection(listener.getsockname()) as raw:
                if accepted:
                    client.wrap_socket(raw, server_hostname=name).close()
                else:
                    with pytest.raises(ssl.SSLCertVerificationError):
                        client.wrap_socket(raw, server_hostname=name)
            thread.join()


def test_certificate_is_renewed_for_new_names_or_age(tmp_path, monkeypatch):
    one = Authority(tmp_path)
    first = one.certificate(["a"])
    assert one.certificate(["a"]) == first
    second = one.certificate(["a", "b"])
    assert second.authority == first.authority
    assert second.certificate != first.certificate
    monkeypatch.setattr(authority, "RENEW_S", 399 * 86400)
    assert one.certificate(["a", "b"]).certificate != second.certificate
