"""The description of the interface in OpenAPI 3.1: every path, who may use it, and every way it can answer.

Shapes of documents are in `nws.server.schemas`. The tests hold real answers against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nws.server.schemas import HOST, SCHEMAS, SERIES, Schema, described, ref
from nws.server.tokens import Role

if TYPE_CHECKING:
    from nws.service.config import ServiceConfig

_REASONS = {
    "400": "Not a request that can be understood.",
    "401": "No token, or one that is not known.",
    "403": "Not with this token, or not with this host's key.",
    "404": "Nothing of that name.",
    "405": "Not a method of this path.",
    "408": "The request did not arrive in time.",
    "409": "Another host holds this name.",
    "413": "The body is longer than is taken.",
    "415": "The body does not call itself JSON.",
    "422": "Understood, and not acceptable.",
    "429": "A limit is reached; Retry-After says when to ask again, where that helps.",
    "431": "Request line and headers are longer than is taken.",
    "500": "The server failed; its log says why.",
    "503": "Not now; Retry-After says when to ask again.",
    "507": "The store cannot be written or read; what only reads goes on where it can.",
}
_ALWAYS = ("400", "405", "408", "422", "429", "431", "500", "503")
_TOKEN = ("401", "403")
_BODY = ("413", "415", "507")

_TIMES = {
    "since": (
        "query",
        described(
            {"type": "number"}, "Not before this, seconds since the epoch; absent: a day for plots, else all."
        ),
    ),
    "until": (
        "query",
        described({"type": "number"}, "Not after this, seconds since the epoch; absent: now."),
    ),
}
_IDENTITY = {
    "X-NWS-Host": ("header", described(HOST, "Host that sends; it may write its own series only.")),
    "X-NWS-Key": ("header", {"type": "string", "maxLength": 200, "description": "Key of that host."}),
}


def document(config: ServiceConfig) -> dict[str, Any]:
    """The description for a service with this configuration."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Network Weather Service of {config.grid}",
            "version": "1",
            "description": "Name server, memory and forecaster of a grid. Times are seconds since the epoch, values "
            "in the unit of their series; a number that is not known is null. "
            f"Bodies: {config.limits.body_bytes} bytes at most; requests: "
            f"{config.limits.requests_per_minute} a minute for each token and address.",
        },
        "servers": [{"url": "/"}],
        "paths": _paths(),
        "components": {
            "schemas": SCHEMAS,
            "responses": {f"E{status}": _error(status, reason) for status, reason in _REASONS.items()},
            "securitySchemes": {
                role.value: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"A token of the role {role.value}; not needed where no tokens are set.",
                }
                for role in Role
            },
        },
    }


def _paths() -> dict[str, Any]:
    return _care() | _host_paths() | _series_paths() | _whole_grid()


def _care() -> dict[str, Any]:
    return {
        "/healthz": {
            "get": _operation("health", "Whether the service can do its work", "Health", also="503")
        },
        "/openapi.json": {"get": _operation("description", "This document", {"type": "object"})},
        "/metrics": {
            "get": _operation("metrics", "For Prometheus", None, roles=("read",), parameters={}),
        },
        "/v1/schedule": {
            "get": _operation("schedule", "Who probes whom, when", "ScheduleAnswer", roles=("read", "write"))
        },
    }


def _host_paths() -> dict[str, Any]:
    host = {"host": ("path", HOST)}
    return {
        "/v1/hosts": {"get": _operation("hosts", "All hosts", "Hosts", roles=("read",))},
        "/v1/hosts/{host}": {
            "parameters": _parameters(host),
            "get": _operation("host", "One host", "HostState", roles=("read",), errors=("404",)),
            "post": _operation(
                "register",
                "A sensor tells who its host is",
                "Registered",
                roles=("write",),
                body="Registration",
                parameters=_IDENTITY,
                errors=("409",),
            ),
            "delete": _operation(
                "forget", "Free a host's name", "Forgotten", roles=("admin",), errors=("404", "507")
            ),
        },
        "/v1/measurements": {
            "post": _operation(
                "put",
                "Deliver measurements, or a sign of life",
                "Receipt",
                roles=("write",),
                body="Batch",
                parameters=_IDENTITY,
                errors=("404",),
            )
        },
    }


def _series_paths() -> dict[str, Any]:
    series = {"name": ("path", SERIES)}
    return {
        "/v1/series": {
            "get": _operation(
                "series",
                "All series, or some",
                "SeriesList",
                roles=("read",),
                parameters={"host": ("query", HOST), "resource": ("query", {"type": "string"})},
            )
        },
        "/v1/series/{name}/samples": {
            "parameters": _parameters(series),
            "get": _operation(
                "samples",
                "Samples of one series",
                "Samples",
                roles=("read",),
                parameters=_TIMES
                | {
                    "resolution": ("query", {"enum": ["auto", "raw", "60", "600"], "default": "auto"}),
                    "most": ("query", {"type": "integer", "minimum": 1, "maximum": 100_000}),
                },
                errors=("404", "507"),
            ),
        },
        "/v1/series/{name}/plot": {
            "parameters": _parameters(series),
            "get": _operation(
                "plot",
                "One series ready to be drawn",
                "Plot",
                roles=("read",),
                parameters=_TIMES | {"points": ("query", {"type": "integer", "minimum": 1, "maximum": 5000})},
                errors=("404", "507"),
            ),
        },
    }


def _whole_grid() -> dict[str, Any]:
    return {
        "/v1/forecasts": {
            "get": _operation(
                "forecasts",
                "Forecasts of series, or of all",
                "Forecasts",
                roles=("read",),
                parameters={"series": ("query", {"type": "array", "items": SERIES, "maxItems": 5000})},
                errors=("404",),
            )
        },
        "/v1/snapshot": {
            "get": _operation(
                "snapshot",
                "Everything at once, in columns",
                "Snapshot",
                roles=("read",),
                parameters={
                    "hosts": ("query", described({"type": "string"}, "Names with commas between them.")),
                    "composed": ("query", {"enum": ["true", "false"], "default": "false"}),
                },
                errors=("404",),
            )
        },
        "/v1/events": {
            "get": _operation(
                "events",
                "What happened, oldest first",
                "Events",
                roles=("read",),
                parameters=_TIMES | {"most": ("query", {"type": "integer", "minimum": 1, "maximum": 10_000})},
                errors=("507",),
            ),
            "post": _operation(
                "note",
                "Tell of something that happened",
                "Event",
                roles=("write",),
                body="Event",
                parameters=_IDENTITY,
                errors=("404",),
            ),
        },
    }


def _operation(
    name: str,
    summary: str,
    answer: str | Schema | None,
    *,
    roles: tuple[str, ...] = (),
    body: str | None = None,
    parameters: dict[str, tuple[str, Schema]] | None = None,
    errors: tuple[str, ...] = (),
    also: str | None = None,
) -> dict[str, Any]:
    """One operation. answer : schema of what it says, None for text; also : a status that says it too."""
    schema = ref(answer) if isinstance(answer, str) else answer
    content = {"text/plain": {"schema": {"type": "string"}}}
    if schema is not None:
        content = {"application/json": {"schema": schema}}
    responses: dict[str, Any] = {"200": {"description": summary, "content": content}}
    statuses = {*_ALWAYS, *errors, *(_TOKEN if roles else ()), *(_BODY if body else ())}
    for status in sorted(statuses):
        responses[status] = {"$ref": f"#/components/responses/E{status}"}
    if also is not None:
        either = {"anyOf": [schema, ref("Error")]}
        responses[also] = {
            "description": _REASONS[also],
            "content": {"application/json": {"schema": either}},
        }
    operation: dict[str, Any] = {"operationId": name, "summary": summary, "responses": responses}
    if roles:
        operation["security"] = [{role: []} for role in dict.fromkeys((*roles, "admin"))]
    if parameters:
        operation["parameters"] = _parameters(parameters)
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": ref(body)}},
        }
    return operation


def _parameters(parameters: dict[str, tuple[str, Schema]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": place, "required": place == "path", "schema": schema}
        for name, (place, schema) in parameters.items()
    ]


def _error(status: str, reason: str) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": reason,
        "content": {"application/json": {"schema": ref("Error")}},
    }
    if status in ("429", "503", "507"):
        response["headers"] = {
            "Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds."}
        }
    return response
