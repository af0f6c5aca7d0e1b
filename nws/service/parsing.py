"""JSON documents of clients into records: `Registration`, `Batch`, `Event`.

Raises `Malformed` with every problem of a document, never anything else, whatever was sent. What the content means,
whether a series may be written or a name is taken, is decided elsewhere.
"""

from __future__ import annotations

from nws.service.records import Batch, Event, Registration


def registration(document: object) -> Registration:
    """What a sensor says of its host."""
    raise NotImplementedError


def batch(document: object) -> Batch:
    """Measurements, or nothing but a sign of life."""
    raise NotImplementedError


def event(document: object) -> Event:
    """Something that happened."""
    raise NotImplementedError
