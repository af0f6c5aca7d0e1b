"""Labels line by line, and the one message to hydra that is kept from it."""

from __future__ import annotations

import os
import select
import socket
import threading

import pytest

from apples.hosts.relays import Labeller, PmiRelay, abort_code, segment_prefix, whole_lines, write_all


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


def test_line_is_labelled_once_however_it_arrives() -> None:
    assert labelled(b"one\ntw", b"o\n", b"\nthr", b"ee") == b"[3] one\n[3] two\n[3] \n[3] three\n"
    assert labelled() == b""


def test_bytes_stay_as_they_are() -> None:
    assert labelled(b"\xff\x00\r\n") == b"[3] \xff\x00\r\n"


def test_pmi_passes_both_ways_and_an_abort_does_not() -> None:
    program, programs_end = socket.socketpair()
    hydra, hydras_end = socket.socketpair()
    with program, hydra:
        converse(program, hydra, PmiRelay(programs_end.detach(), hydras_end.detach(), os.devnull))


def converse(program: socket.socket, hydra: socket.socket, relay: PmiRelay) -> None:
    ours, theirs = relay.sources
    program.send(b"cmd=barrier_in\n")
    assert relay.pump(ours)
    assert hydra.recv(100) == b"cmd=barrier_in\n"
    hydra.send(b"cmd=barrier_out\n")
    assert relay.pump(theirs)
    assert program.recv(100) == b"cmd=barrier_out\n"
    assert relay.job is None
    hydra.send(b"cmd=my_kvsname rc=0 kvsname=kvs_1_0_2_here\n")
    assert relay.pump(theirs)
    assert relay.job == b"kvs_1_0_2_here"
    assert program.recv(100) == b"cmd=my_kvsname rc=0 kvsname=kvs_1_0_2_here\n"
    program.send(b"cmd=abort exitcode=5\n")
    assert not relay.pump(ours)
    assert relay.aborted == 5
    hydra.setblocking(False)
    assert unread(hydra) == b""
    hydra.close()
    assert not relay.pump(theirs)
    assert program.recv(100) == b""
    os.close(theirs)


#: Requests of a rank in MPI_Init. The last rank of a host with more ranks than others has no address to get.
INIT = (
    b"cmd=barrier_in\n",
    b"cmd=barrier_in\n",
    b"cmd=get kvsname=k key=-bcast-1-0\n",
    b"cmd=put kvsname=k key=-allgather-shm-1-2 value=20D1\n",
    b"cmd=barrier_in\n",
)
GETS = (b"cmd=get kvsname=k key=-allgather-shm-1-0\n", b"cmd=get kvsname=k key=-allgather-shm-1-1\n")


@pytest.mark.parametrize("gets", [GETS, ()])
@pytest.mark.parametrize(("hosts", "newer"), [(1, False), (2, False), (2, True)])
def test_last_barrier_of_mpich_4_is_answered_after_a_time(
    gets: tuple[bytes, ...], hosts: int, newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("MPI_LOCALNRANKS", str(4 // hosts))
    ours_to_answer = hosts > 1 and not newer
    program, programs_end = socket.socketpair()
    hydra, hydras_end = socket.socketpair()
    with program, hydra:
        relay = PmiRelay(programs_end.detach(), hydras_end.detach(), os.devnull)
        ours, theirs = relay.sources
        first = (b"cmd=get kvsname=k key=PMI_mpi_memory_alloc_kinds\n",) if newer else ()
        for request in (*first, *INIT, *gets):
            program.send(request)
            assert relay.pump(ours)
            assert hydra.recv(100) == request
            hydra.send(b"cmd=answer\n")
            assert relay.pump(theirs)
            assert program.recv(100) == b"cmd=answer\n"
        program.send(b"cmd=barrier_in\n")
        assert relay.pump(ours)
        hydra.setblocking(False)
        program.setblocking(False)
        # a newer MPICH makes its barrier at another place, and on one host it is answered by hydra
        assert (unread(program), unread(hydra)) == (b"", b"" if ours_to_answer else b"cmd=barrier_in\n")
        assert (relay.left_s() is not None) == ours_to_answer
        assert relay.finalize() is None
        if ours_to_answer:
            relay.answer()
            assert relay.left_s() is None
            assert unread(program) == b"cmd=barrier_out\n"
            # a program that ends by `_exit` does not say that it ends
            assert relay.finalize() == theirs
            assert unread(hydra) == b"cmd=finalize\n"
        for fd in (ours, theirs):
            os.close(fd)


def unread(end: socket.socket) -> bytes:
    try:
        return end.recv(100)
    except BlockingIOError:
        return b""


def test_codes_of_an_abort() -> None:
    assert abort_code(b"cmd=abort exitcode=5\n") == 5
    assert abort_code(b"cmd=abort exitcode=-1 error_msg=x\n") == -1
    assert abort_code(b"cmd=abort\n") == 1


def test_pieces_are_whole_lines_that_a_pipe_takes_at_once() -> None:
    lines = [b"x" * (i % 900) + b"\n" for i in range(2000)] + [b"y" * 9000 + b"\n", b"z\n"]
    pieces = whole_lines(lines)
    assert b"".join(pieces) == b"".join(lines)
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert [len(piece) for piece in pieces if len(piece) > select.PIPE_BUF] == [9001]


def test_non_blocking_output_loses_nothing() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    data = os.urandom(1 << 18)
    got: list[bytes] = []

    def slowly() -> None:
        with os.fdopen(read, "rb") as file:
            got.append(file.read())

    reader = threading.Thread(target=slowly)
    reader.start()
    assert write_all(write, data)
    os.close(write)
    reader.join()
    assert got == [data]


def test_reader_that_left_is_noticed() -> None:
    read, write = os.pipe()
    os.close(read)
    assert not write_all(write, b"x")
    os.close(write)


def test_mpich_names_its_segments_after_the_run() -> None:
    assert segment_prefix(b"kvs_6373_0_638379764_vm") == "mpich_shm_43673036_"
