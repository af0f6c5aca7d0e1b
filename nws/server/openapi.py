"""The OpenAPI 3.1 description of the interface: every path, its roles, and every possible response.

`nws.server.schemas` defines the documents. The tests validate real responses against this description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nws.server.schemas import HOST, SCHEMAS, SERIES, Schema, described, ref
from nws.server.tokens import Role

if TYPE_CHECKING:
    from nws.service.config import ServiceConfig

_REASONS = {
    "400": "The request cannot be parsed.",
    "401": "The token is missing or unknown.",
    "403": "The token's role or the host's key does not permit this.",
    "404": "The name is unknown.",
    "405": "The path does not support this method.",
    "408": "The request did not arrive in time.",
    "409": "Another host holds this name.",
    "413": "The body is too large.",
    "415": "The Content-Type is not JSON.",
    "422": "The request was parsed, but a value is not acceptable.",
    "429": "A limit is reached; Retry-After is set if waiting helps.",
    "431": "Request line and headers are too large.",
    "500": "The server failed; its log has the reason.",
    "503": "Temporarily unavailable; see Retry-After.",
    "507": "The store cannot be written or read.",
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
    "X-NWS-Host": ("header", described(HOST, "The sending host; it may write only its own series.")),
    "X-NWS-Key": ("header", {"type": "string", "maxLength": 200, "description": "Key of that host."}),
}


def document(config: ServiceConfig) -> dict[str, Any]:
    """Return the description of a service with this configuration."""
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
        "/healthz": {"get": _operation("health", "Health of the service", "Health", also="503")},
        "/openapi.json": {"get": _operation("description", "This document", {"type": "object"})},
        "/metrics": {
            "get": _operation("metrics", "For Prometheus", None, roles=("read",), parameters={}),
        },
        "/v1/schedule": {
            "get": _operation(
                "schedule",
                "The measuring schedule",
                "ScheduleAnswer",
                roles=("read", "write"),
            )
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
                "Register a sensor's host",
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
                "Deliver measurements, or a sign of life without any",
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
                "One series for a plot",
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
                "All hosts and series, in columns",
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
                "Events, oldest first",
                "Events",
                roles=("read",),
                parameters=_TIMES | {"most": ("query", {"type": "integer", "minimum": 1, "maximum": 10_000})},
                errors=("507",),
            ),
            "post": _operation(
                "note",
                "Record an event",
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
    """Return the description of one operation.

    Args:
        answer: schema of the response, None for text
        also: a further status with the same schema
    """
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
