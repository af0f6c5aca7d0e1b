"""What a failed call of the machine does to the listener and the event loop."""

import asyncio
import logging
import socket
import ssl

import pytest

from nws.server.protocol import Handshakes
from nws.server.serve import log_fault


@pytest.mark.parametrize("call", ["sock_accept", "create_task"])
def test_accept_without_memory_is_repeated(certificate, caplog, call):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate, certificate.key)
    trusting = ssl.create_default_context(cafile=certificate.certificate)

    async def served():
        loop = asyncio.get_running_loop()
        real, failed = getattr(loop, call), []

        def first_fails(argument):
            if not failed:
                failed.append(argument)
                if asyncio.iscoroutine(argument):
                    argument.close()
                raise MemoryError
            return real(argument)

        connected = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport):
                connected.set_result(transport)

        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            handshakes = Handshakes(context)
            handshakes.start(listening, 8, Protocol)
            setattr(loop, call, first_fails)
            address = listening.getsockname()
            if call == "create_task":
                # closed without an answer; the next one gets it
                reader, writer = await asyncio.open_connection(*address)
                assert await reader.read() == b""
                writer.close()
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
