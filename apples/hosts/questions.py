"""Conversations with host agents: a check with its questions, or a node manager's part in a run. Frames both ways."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from apples.hosts.frames import FromAgent, ToAgent, Unframer, frame
from apples.hosts.hostmessages import Kind, encoded, read
from nws.base.hostconnection import HostCheckError, HostConnection


class AgentConversation(HostConnection):
    """A connection to a host agent that answers questions; a context manager that leaves no process."""

    def __init__(
        self,
        address: str | None,
        opening: tuple[bytes, bytes],
        through: Sequence[str] = (),
        *,
        program: bytes,
        python: str | None = None,
        notify: Callable[[str], None] = lambda note: None,
    ) -> None:
        """Start the agent; raises `SshNotFound` without ssh, `OSError` if it cannot be started.

        Args:
            address: destination for ssh, None for this machine
            opening: kind and payload of the first frame
            through: command prefix that replaces ssh
            program: source of the agent
            python: interpreter there, None for any
            notify: gets the notes of the agent
        """
        self._unframer, self._frames = Unframer(preamble=True), deque[tuple[bytes, bytes]]()
        self._notify = notify
        super().__init__(address, opening, through, program=program, python=python)

    def packed(self, order: object) -> bytes:
        """Return a frame. `order`: its kind and payload"""
        assert isinstance(order, tuple)
        return frame(*order)

    def taken(self) -> bytes | None:
        """Take the payload of the next answer; raises `HostCheckError` if the agent refuses."""
        try:
            self._frames += self._unframer.feed(self.received)
        except ValueError as error:
            raise HostCheckError(str(error)) from None
        # The unframer holds incomplete frames.
        self.received, self.noise = b"", b"" if self._unframer.greeted else self._unframer.noise
        while self._frames:
            kind, payload = self._frames.popleft()
            # Notes may come before it, as of a node manager that is being started.
            if kind == FromAgent.ANSWER:
                return payload
            text = payload.decode(errors="replace")
            if kind == FromAgent.REFUSED:
                raise HostCheckError(f"cannot take part: {text}")
            if kind == FromAgent.NOTE:
                self._notify(text)
        return None

    def question(self, question: Struct, kind: type[Kind], within_s: float) -> Kind:
        """Return the answer to a question of a check; raises `HostCheckError`."""
        self.send((ToAgent.QUESTION, encoded(question)))
        return read(kind, self.answer(within_s))
