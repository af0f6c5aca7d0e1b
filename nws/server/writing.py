"""Routes that change data: they check the sender, the core checks the content."""

from starlette.requests import Request
from starlette.responses import Response

from nws.base.errors import Forbidden, Refused
from nws.messages.bounds import parse
from nws.messages.records import Batch, Event, Forgotten, Registration
from nws.series import HOST_NAME_LEGAL, is_host_name
from nws.server.answers import answer
from nws.server.backend import Backend
from nws.server.middleware import RequestContext
from nws.server.reading import host_of
from nws.server.tokens import Role

_LONGEST_KEY = 200
#: Number of samples from which a batch is converted in a thread.
_LONG_BATCH = 2_000


def sender(request: Request) -> tuple[str | None, str | None]:
    """Return the host and key in a request's headers; raises `Refused` if they are not legal."""
    host, key = request.headers.get("x-nws-host"), request.headers.get("x-nws-key")
    if host is not None and not is_host_name(host):
        raise Refused(f"X-NWS-Host {host[:80]!r} is not a host name: expected {HOST_NAME_LEGAL}")
    if key is not None and (not key or len(key) > _LONGEST_KEY or not key.isascii()):
        raise Refused(f"X-NWS-Key is not a key: expected 1 to {_LONGEST_KEY} ASCII characters")
    return host, key


async def register(backend: Backend, request: Request) -> Response:
    """Register a host and return its measuring settings."""
    name = host_of(request)
    host, key = sender(request)
    if host is not None and host != name:
        raise Refused(f"X-NWS-Host is {host}, but the path has {name}; a host registers itself")
    record = parse(Registration, await backend.document(request))
    registered = await backend.ask(backend.service.register, name, record, key)
    if registered.key is not None:
        backend.log_client(request, f"registered as {name}")
    return answer(registered)


async def forget(backend: Backend, request: Request) -> Response:
    """Forget a host."""
    name = host_of(request)
    await backend.ask(backend.service.forget, name)
    backend.log_client(request, f"host {name} forgotten")
    return answer(Forgotten(now=backend.service.now(), forgotten=name))


async def put(backend: Backend, request: Request) -> Response:
    """Store a batch of measurements, which may be empty (a sign of life)."""
    host, key = sender(request)
    context: RequestContext = request.scope["nws"]
    admin = Role.ADMIN in context.roles
    if host is None and not admin:
        raise Forbidden(
            "a batch without X-NWS-Host may be about any host, and needs the role admin; "
            "send X-NWS-Host and X-NWS-Key as registration gave them"
        )
    document = await backend.document(request)
    long = isinstance(document.get("value"), list) and len(document["value"]) > _LONG_BATCH
    batch = await backend.ask(parse, Batch, document) if long else parse(Batch, document)
    # an admin's token may write for a host without its key
    check = host is not None and not (admin and backend.tokens.required and key is None)
    return answer(await backend.writer.put(batch, host=host, key=key, check=check))


async def note(backend: Backend, request: Request) -> Response:
    """Record an event."""
    host, key = sender(request)
    context: RequestContext = request.scope["nws"]
    record = parse(Event, await backend.document(request))
    if host is None and record.host is not None and Role.ADMIN not in context.roles:
        raise Forbidden(
            f"an event of host {record.host} without X-NWS-Host needs the role admin; send X-NWS-Host and X-NWS-Key as "
            "registration gave them, or leave the host out"
        )
    if host is not None:
        if record.host not in (None, host):
            raise Refused(
                f"X-NWS-Host is {host}, but the event is of {record.host}; a host reports its own events"
            )
        await backend.ask(backend.service.check_key, host, key)
    await backend.ask(backend.service.event, record)
    return answer(record)
