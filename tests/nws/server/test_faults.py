"""What a failed call of the machine does to the listener and the event loop."""

import asyncio
import logging
import socket
import ssl

from nws.server.handshakes import Handshakes
from nws.server.run import log_fault


def test_accept_without_memory_is_repeated(certificate, caplog):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    trusting = ssl.create_default_context(cafile=certificate.certificate)

    async def served():
        loop = asyncio.get_running_loop()
        accept, failed = loop.sock_accept, []

        async def first_fails(listening):
            if not failed:
                failed.append(listening)
                raise MemoryError
            return await accept(listening)

        loop.sock_accept = first_fails
        connected = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport):
                connected.set_result(transport)

        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            handshakes = Handshakes(context)
            handshakes.start(listening, 8, Protocol)
            address = listening.getsockname()
            _, writer = await asyncio.open_connection(*address, ssl=trusting, server_hostname="127.0.0.1")
            (await asyncio.wait_for(connected, 10)).close()
            writer.close()
            handshakes.close()
        assert failed

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(served(), 20))
    assert [r.message for r in caplog.records] == [
        "listener: a connection could not be accepted: no memory is left"
    ]


def test_faults_of_the_loop_are_one_line_and_defects_are_whole(caplog):
    def logged():
        return [(record.getMessage(), record.exc_info is not None) for record in caplog.records]

    loop = asyncio.new_event_loop()
    try:
        log_fault(loop, {"message": "Fatal error on transport", "exception": MemoryError()})
        log_fault(
            loop, {"message": "Fatal error on transport", "exception": OSError(5, "Input/output error")}
        )
        assert logged() == [
            ("Fatal error on transport: no memory is left", False),
            ("Fatal error on transport: Input/output error", False),
        ]
        caplog.clear()
        log_fault(loop, {"message": "Task exception was never retrieved", "exception": KeyError("x")})
        assert logged() == [("Task exception was never retrieved", True)]
    finally:
        loop.close()
