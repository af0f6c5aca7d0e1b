"""Labels line by line, and the one message to hydra that is kept from it."""

from __future__ import annotations

import os
import socket

from apples.launching.relays import Labeller, PmiRelay, abort_code


def labelled(*pieces: bytes) -> bytes:
    source_read, source_write = os.pipe()
    target_read, target_write = os.pipe()
    labeller = Labeller(source_read, target_write, 3)
    for piece in pieces:
        os.write(source_write, piece)
        assert labeller.pump(source_read)
    os.close(source_write)
    assert not labeller.pump(source_read)
    os.close(target_write)
    with os.fdopen(target_read, "rb") as target:
        return target.read()


def test_every_line_is_labelled_once_however_it_arrives() -> None:
    assert labelled(b"one\ntw", b"o\n", b"\nthr", b"ee") == b"[3] one\n[3] two\n[3] \n[3] three\n"
    assert labelled() == b""


def test_bytes_stay_as_they_are() -> None:
    assert labelled(b"\xff\x00\r\n") == b"[3] \xff\x00\r\n"


def test_pmi_passes_both_ways_and_an_abort_does_not() -> None:
    program, programs_end = socket.socketpair()
    hydra, hydras_end = socket.socketpair()
    relay = PmiRelay(programs_end.detach(), hydras_end.detach())
    ours, theirs = relay.sources
    program.send(b"cmd=barrier_in\n")
    assert relay.pump(ours)
    assert hydra.recv(100) == b"cmd=barrier_in\n"
    hydra.send(b"cmd=barrier_out\n")
    assert relay.pump(theirs)
    assert program.recv(100) == b"cmd=barrier_out\n"
    program.send(b"cmd=abort exitcode=5\n")
    assert not relay.pump(ours)
    assert relay.aborted == 5
    hydra.setblocking(False)
    try:
        leaked = hydra.recv(100)
    except BlockingIOError:
        leaked = b""
    assert leaked == b""
    hydra.close()
    assert not relay.pump(theirs)
    assert program.recv(100) == b""
    program.close()
    os.close(theirs)


def test_codes_of_an_abort() -> None:
    assert abort_code(b"cmd=abort exitcode=5\n") == 5
    assert abort_code(b"cmd=abort exitcode=-1 error_msg=x\n") == -1
    assert abort_code(b"cmd=abort\n") == 1
